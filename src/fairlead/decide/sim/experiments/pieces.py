"""An experiment cut into pieces: some sets of a point, each under the policies it still lacks. What a worker runs.

The same pieces whoever works on them, in whatever order. Not here: workers, and where rows go (`sim.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.decide.sim.experiments.cases import Case, Row, build_case, build_case_rows
from fairlead.decide.sim.experiments.experiment_spec import Experiment
from fairlead.decide.sim.experiments.replay_spec import Replay

SETS = 5
"""Sets of a piece: some hundred runs, a second or less."""
Key = tuple[str, int, float | None, int, str, str]
"""Case, applications, load, set, policy, information: what names a row."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Sets of one point, and what each is run under: (policy, information)."""

    case: Case
    applications: int
    load: float | None
    sets: tuple[int, ...]
    wanted: tuple[tuple[str, str], ...]

    @property
    def runs(self) -> int:
        """Rows it makes."""
        return len(self.sets) * len(self.wanted)


def build_piece_key(row: Row) -> Key:
    """The name of a row."""
    return row.case_id, row.applications, row.load, row.set_number, row.policy, row.information


def list_piece_keys(experiments: Sequence[Experiment]) -> dict[Key, Case]:
    """Every row that the experiments need, once however many need it, in order."""
    found: dict[Key, Case] = {}
    for one in experiments:
        case = build_case(one)
        digest = case.digest
        for applications, load in one.points:
            for number in range(one.sets):
                for policy in one.chosen:
                    for information in one.information:
                        found[digest, applications, load, number, policy, information] = case
    return found


def cut_pieces(wanted: dict[Key, Case], done: Iterable[Key] = ()) -> list[Piece]:
    """What is left to do, cut so that every set lies in the piece of its number whatever was done before."""
    before = set(done)
    lacking: dict[tuple[str, int, float | None, int], list[tuple[str, str]]] = {}
    for key in wanted:
        if key not in before:
            lacking.setdefault(key[:4], []).append(key[4:])
    cases = {key[0]: case for key, case in wanted.items()}
    together: dict[tuple[str, int, float | None, int, tuple[tuple[str, str], ...]], list[int]] = {}
    for (digest, applications, load, number), names in lacking.items():
        if isinstance(cases[digest].workload, Replay):  # long each: a piece of its own
            together |= {(digest, applications, load, number, (name,)): [number] for name in names}
        else:
            together.setdefault((digest, applications, load, number // SETS, tuple(names)), []).append(number)
    return [
        Piece(case=cases[digest], applications=applications, load=load, sets=tuple(numbers), wanted=names)
        for (digest, applications, load, _, names), numbers in together.items()
    ]


def simulate_piece(piece: Piece) -> list[Row]:
    """All rows of a piece of sets of applications."""
    from fairlead.decide.registered_policies import find_registered_policy

    rows: list[Row] = []
    for number in piece.sets:
        # Made anew for each set: what a policy keeps must not depend on which sets came before.
        made = [(name, information, find_registered_policy(name)) for name, information in piece.wanted]
        rows += build_case_rows(piece.case, piece.applications, piece.load, number, made)
    return rows
