"""What is simulated, kept in a lake: rows by piece as they are made, experiments when they are whole; and read again.

Not here: making rows (`run`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from fairlead.core import clock
from fairlead.core.errors import UsageError
from fairlead.core.model.tables import EXPERIMENT, SIMULATION, build_table_batch
from fairlead.decide.sim.experiments.cases import MEASURES, MODEL, Row, build_case
from fairlead.decide.sim.experiments.experiment_spec import Experiment
from fairlead.decide.sim.experiments.papers import PaperReport
from fairlead.decide.sim.experiments.pieces import Key, Piece
from fairlead.decide.sim.experiments.summary import Results
from fairlead.store.lake import Lake
from fairlead.store.writer import Writer

DEFAULT_LAKE = Path("simulations")
KEY = ("case_id", "applications", "load", "set_number", "policy", "information")


def store_result_rows(writer: Writer, piece: Piece, rows: Sequence[Row]) -> None:
    """Puts the rows of a piece into the lake; they are on disk when this returns. Raises LakeError."""
    now_ns = clock.now_ns()
    columns: dict[str, object] = {name: [getattr(row, name) for row in rows] for name in Row.__struct_fields__}
    columns["made_ns"] = np.full(len(rows), now_ns, np.int64)
    batch = writer.open_batch(f"simulate {_mark(piece)} {now_ns}")
    batch.add(build_table_batch(SIMULATION, columns))
    batch.commit()


def _mark(piece: Piece) -> str:
    return blake2b(msgspec.json.encode(piece, order="deterministic"), digest_size=8).hexdigest()


def find_stored_result_rows(lake: Lake, cases: Iterable[str]) -> set[Key]:
    """Names of the rows that are there already, of some cases."""
    found = lake.query(
        f"SELECT DISTINCT {', '.join(KEY)} FROM simulation WHERE case_id IN (SELECT unnest($cases))",  # noqa: S608
        {"cases": sorted(set(cases))},
    )
    return set(zip(*(found.column(name).to_pylist() for name in KEY), strict=True))


def read_stored_results(lake: Lake, experiments: Sequence[Experiment]) -> Results:
    """The rows that experiments ask for, as far as they are there. In one order whoever made them."""
    names = (*MEASURES, "load_sys")
    table = lake.query(
        f"SELECT {', '.join(KEY)}, {', '.join(f'any_value({name}) AS {name}' for name in names)} FROM simulation"  # noqa: S608
        f" WHERE case_id IN (SELECT unnest($cases)) AND set_number < $sets GROUP BY ALL ORDER BY {', '.join(KEY)}",
        {
            "cases": sorted({build_case(one).digest for one in experiments}),
            "sets": max((one.sets for one in experiments), default=0),
        },
    )
    columns = {name: np.asarray(table.column(name).to_numpy(zero_copy_only=False), np.float64) for name in names}
    case, applications, load, _, policy, information = (table.column(name).to_pylist() for name in KEY)
    return Results.from_columns(list(zip(case, applications, load, policy, information, strict=True)), columns)


def store_whole_results(writer: Writer, experiments: Sequence[Experiment]) -> None:
    """Notes that experiments were run to their end. Raises LakeError."""
    for one in experiments:
        name = f"{one.name} (study window)" if one.measured == "study" else one.name
        _note(writer, name, "spec", msgspec.json.encode(one).decode(), one.seed, one.sets, build_case(one).digest)


def store_paper_result(writer: Writer, name: str, answer: PaperReport, seed: int) -> None:
    """Keeps what a paper's experiment told. Raises LakeError."""
    _note(writer, name, "paper", msgspec.json.encode(answer).decode(), seed, None, None)


def _note(writer: Writer, name: str, kind: str, detail: str, seed: int, sets: int | None, case: str | None) -> None:
    now_ns = clock.now_ns()
    batch = writer.open_batch(f"experiment {name} {now_ns}")
    batch.add(
        build_table_batch(
            EXPERIMENT,
            {
                "name": [name],
                "kind": [kind],
                "case_id": [case],
                "seed": [seed],
                "sets": [sets],
                "detail": [detail],
                "made_ns": [now_ns],
                "analysis_version": [MODEL],
            },
        )
    )
    batch.commit()


def find_stored_result(lake: Lake, name: str) -> Experiment | PaperReport:
    """An experiment that was run, by its name, as it was run last. Raises UsageError when there is none."""
    found = lake.query("SELECT name, kind, detail, made_ns FROM experiment ORDER BY made_ns")
    for row in reversed(found.to_pylist()):
        if row["name"] == name:
            kind: type[Experiment] | type[PaperReport] = Experiment if row["kind"] == "spec" else PaperReport
            return msgspec.json.decode(row["detail"], type=kind)
    known = ", ".join(dict.fromkeys(found.column("name").to_pylist())) or "none"
    raise UsageError(f"there is no result {name!r}", where=str(lake.place.root), remedy=f"there: {known}")


def list_stored_results(root: Path) -> list[dict[str, object]]:
    """Results in the lake, the latest of each name, oldest first: name, kind, seed, sets, made_ns. None: no lake."""
    if not (root / "lake.toml").is_file():
        return []
    found = Lake.open(root).query("SELECT name, kind, seed, sets, made_ns FROM experiment ORDER BY made_ns")
    return list({row["name"]: row for row in found.to_pylist()}.values())
