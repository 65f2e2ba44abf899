"""Precision of accusations by view: what the gate of accusations is made of and measured by.

`python benchmarks/accusation_precision.py --keep FOLDER --play MACHINE:SEED:NUMBER` plays and keeps one play as every
view shows it (play them in any order, in as many processes as there are cores).
`python benchmarks/accusation_precision.py --keep FOLDER --season MACHINE:SEED` judges the plays kept of one season.
`python benchmarks/accusation_precision.py --keep FOLDER [--write]` takes all seasons judged and prints, by view and
confidence, how many accusations there were and how many were right; `--write` makes the table of the package of it
(`explain/analysis/interference/accusation_precision.toml`). Seeds below 100 are for tuning, the others held out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _diagnosis_scenes import Plays, name_of, scenes
from _diagnosis_scores import share
from rich.console import Console
from rich.table import Table

from fairlead.core.model.tables import PHASE
from fairlead.explain.analysis.anomalies.expectation import CANDIDATES, judge_by_expectation
from fairlead.explain.analysis.interference import accusation_gate
from fairlead.explain.analysis.interference.accusation_gate import (
    LEAST_COUNT,
    LEAST_PRECISION,
    classify_accusation,
    compute_accusation_score,
    derive_scene_view,
    look_up_precision,
)
from fairlead.explain.analysis.interference.attribution import attribute_phase
from fairlead.explain.diagnosing.diagnosis_settings import Limits
from fairlead.explain.diagnosing.diagnosis_step import select_reportable
from fairlead.kit.testing.machine.labelled import (
    build_labelled_views,
    classify_labelled_phases,
    keep_labelled_play,
    read_labelled_play,
)
from fairlead.kit.testing.machine.phase_truth import TIED
from fairlead.kit.testing.machine.season import Season, build_ordinary_season, build_small_season
from fairlead.kit.testing.machine.views import FULL, View

PLAYS, SECONDS, FAULT_SHARE = 10, 2400, 0.3
"""More plays than usual have a fault, so that there are enough accusations of components."""
PUBLISHED_SHARE = 0.06
"""Of plays with a fault, in a season as docs/explanation/labelled-machine.md has it."""
PUBLISHED = ("trace 1 s, forwarder 1 s, server 1 s", "job", 0.8, 796, 821)
"""Of `diagnosis.py` on whole seasons (held-out seeds 101 to 103, thirty plays of an hour; history of 2026-11-22): how
many of the accusations with a score of 0.8 or more were right. They count together with those of the plays here."""
NO_TRACE, SERVERS = ("client",), ("client", "forwarder", "network")
HELD_OUT = 100
"""Seeds from here on are held out."""
TUNED, LEAST_TUNED = 0.95, 20
"""Share of accusations that must be right on the tuning seeds, and how many there must be, for a score to count."""
HEAD = f"""# Precision of accusations on held-out seasons of the labelled machine, by view and kind of culprit: of those
# with a score of `least` (chosen on tuning seeds) or more, `right` of `count` were. Without `least`, none sufficed.
# Made by: python benchmarks/accusation_precision.py --keep FOLDER --write
# The job line of the full view counts the whole seasons of benchmarks/diagnosis.py (seeds 101 to 103), too, and its
# `least` was set by hand: no score chosen on the tuning seeds kept 95 % (docs/explanation/who-is-to-blame.md).
# Plays of {SECONDS} s (machine seed: plays; seeds from 101 on are held out): {{plays}}
"""
console = Console(width=160)
VIEWS = {
    "small": {
        "full": FULL,
        "no client trace": View(without=NO_TRACE),
        "no client trace, 10 s": View(without=NO_TRACE, interval_s=10, stored=True),
        "no forwarders": View(without=("forwarder",)),
        "servers": View(without=SERVERS),
        "servers, 10 s": View(without=SERVERS, interval_s=10, stored=True),
        "servers, 60 s": View(without=SERVERS, interval_s=60, stored=True),
    },
    "ordinary": {
        "full": FULL,
        "servers": View(without=SERVERS),
        "servers, 10 s": View(without=SERVERS, interval_s=10, stored=True),
        "servers, 60 s": View(without=SERVERS, interval_s=60, stored=True),
    },
}


def build_season(machine: str, seed: int) -> Season:
    build = build_small_season if machine == "small" else build_ordinary_season
    return build(seed, PLAYS, SECONDS, fault_share=FAULT_SHARE)


def keep_play(keep: Path, machine: str, seed: int, number: int) -> None:
    """Plays once, keeps what every view shows."""
    season, views = build_season(machine, seed), VIEWS[machine].values()
    folders = [keep / name_of(season, view) for view in views]
    if all((folder / f"{number:03d}.done").is_file() for folder in folders):
        return
    for folder, made in zip(folders, build_labelled_views(season, number, list(views)), strict=True):
        keep_labelled_play(made, folder)


@dataclass(frozen=True)
class Accusation:
    """What the attribution of one reportable phase would say without the gate. `state`: 1 abnormal, 0 quiet, -1
    between; `right`: the phase lost time and the culprit is the best cause or as good as it."""

    machine: str
    seed: int
    view: str
    accused: str | None
    score: float
    right: bool
    state: int
    faulty: bool | None = None
    """Whether a component had a fault in that play; None: not known, and not weighted."""

    @property
    def weight(self) -> float:
        """Plays with a fault count as often as such plays are in a season as published (`PUBLISHED_SHARE`)."""
        share, drawn = PUBLISHED_SHARE, FAULT_SHARE
        if self.faulty is None:
            return 1.0
        return share / drawn if self.faulty else (1 - share) / (1 - drawn)


def read_plays(keep: Path, season: Season, view: View) -> Plays | None:
    """The plays of a season that were kept as this view shows them."""
    folder = keep / name_of(season, view)
    numbers = sorted(int(path.stem) for path in folder.glob("*.done"))
    plays = [read_labelled_play(folder, number) for number in numbers]
    if not plays:
        return None
    phases = pa.concat_tables([play.seen.phases.unify_dictionaries() for play in plays])
    phases = phases.cast(PHASE.schema).unify_dictionaries().combine_chunks()
    return Plays(season, plays, phases, pa.concat_tables([play.labels for play in plays]).combine_chunks())


def judge_season(machine: str, one: Plays) -> tuple[list[Accusation], int]:
    """Every phase that would be reported, accused of or not; how many phases were abnormal."""
    said = judge_by_expectation(one.phases, one.phases, CANDIDATES)
    states = classify_labelled_phases(one.labels)
    labels = one.labels.to_pylist()
    faulty = {play.number for play in one.plays if play.faults.num_rows}
    made = []
    for row, scene in scenes(one, said, np.array(select_reportable(said, Limits()), np.int64)):
        found = attribute_phase(scene)
        score = compute_accusation_score(scene, found)
        accused = classify_accusation(found) if found.accused else None
        named = (found.culprits[0].who.kind == "job", found.culprits[0].who.id) if found.culprits else None
        good = labels[row]["verdict"] == "many_neighbours" if accused == "many" else named in find_causes(labels[row])
        right = bool(accused and states[row] != 0 and good)
        view, state = derive_scene_view(scene), int(states[row])
        sick = labels[row]["play"] in faulty
        made.append(Accusation(machine, one.season.seed, view, accused, score, right, state, sick))
    return made, int((states == 1).sum())


def keep_judged(keep: Path, machine: str, seed: int) -> None:
    """Judges the plays kept of one season, by every view, and keeps what came of it."""
    season = build_season(machine, seed)
    found: list[Accusation] = []
    count = 0
    for name, view in VIEWS[machine].items():
        one = read_plays(keep, season, view)
        if one is None:
            continue
        made, incidents = judge_season(machine, one)
        found += made
        count = len(one.plays)
        accused = sum(a.accused is not None for a in made)
        console.print(
            f"{machine} {seed} {name}: {count} plays, {incidents} abnormal phases, {len(made)} reported, "
            f"{accused} accused of, {sum(a.right for a in made)} rightly"
        )
    judged = {"plays": f"{machine} {seed}: {count}", "accusations": [asdict(one) for one in found]}
    (keep / f"judged-{machine}-{seed}.json").write_text(json.dumps(judged))


def find_causes(label: dict[str, Any]) -> set[tuple[bool, str]]:
    """Right answers, (is a job, name): the best cause and those as good."""
    causes, back = label["causes"] or [], label["recovered_s"] or []
    if not back or back[0] <= 0:
        return set()
    return {(name.isdigit(), name) for name, seconds in zip(causes, back, strict=True) if seconds >= TIED * back[0]}


def count_right(rows: Sequence[Accusation]) -> tuple[int, int]:
    """Accusations that were right, and all: of components as they are, of jobs weighted by play."""
    weights = [1.0 if one.accused == "component" else one.weight for one in rows]
    right = sum(weight for weight, one in zip(weights, rows, strict=True) if one.right)
    return round(right), round(sum(weights))


def find_least_score(rows: Sequence[Accusation]) -> float | None:
    """The lowest score from which accusations on these (tuning) seasons were right often enough, on every machine."""
    for least in np.arange(0.15, 1.0, 0.05).round(2).tolist():
        kept = [one for one in rows if one.score >= least]
        counts = [count_right([one for one in kept if one.machine == machine]) for machine in VIEWS]
        if sum(count for _, count in counts) >= LEAST_TUNED and all(right >= TUNED * count for right, count in counts):
            return float(least)
    return None


def tabulate(found: Sequence[Accusation]) -> list[dict[str, Any]]:
    """Lines of the table: thresholds of the tuning seeds, counts of the held-out ones."""
    lines = []
    for view, accused in sorted({(one.view, one.accused) for one in found if one.accused}):
        mine = [one for one in found if (one.view, one.accused) == (view, accused)]
        tuned, held = [one for one in mine if one.seed < HELD_OUT], [one for one in mine if one.seed >= HELD_OUT]
        pooled = PUBLISHED if (view, accused) == PUBLISHED[:2] else (view, accused, find_least_score(tuned), 0, 0)
        least = pooled[2]
        kept = [one for one in held if least is None or one.score >= least]
        line = {"view": view, "accused": accused} | ({} if least is None else {"least": least})
        right, count = (own + more for own, more in zip(count_right(kept), pooled[3:], strict=True))
        lines.append(line | {"right": right, "count": count, "before": held})
    return lines


def write_table(lines: Sequence[dict[str, Any]], plays: str) -> None:
    """The table of the package."""
    path = Path(accusation_gate.__file__).with_name(accusation_gate.TABLE)
    text = HEAD.format(plays=plays)
    for line in lines:
        values = {name: line[name] for name in ("view", "accused", "least", "right", "count") if name in line}
        text += "\n[[shown]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    path.write_text(text, encoding="utf-8")


def report(found: Sequence[Accusation], lines: Sequence[dict[str, Any]]) -> None:
    """Prints before and after by view, on the held-out seeds."""
    table = Table("view", "accused", "score from", "without the gate: right", "with it: right", "quiet", "told")
    for line in lines:
        held = line["before"]
        kept = [one for one in held if one.score >= line.get("least", 2.0)]
        precision, low, _ = share(line["right"], line["count"])
        told = "least" in line and line["count"] >= LEAST_COUNT and precision >= LEAST_PRECISION
        table.add_row(
            line["view"],
            line["accused"],
            f"{line['least']:.2f}" if "least" in line else "",
            f"{sum(one.right for one in held)}/{len(held)}",
            f"{line['right']}/{line['count']} = {precision:.3f} ({low:.3f}-)" if "least" in line else "",
            str(sum(one.state == 0 for one in kept)),
            "yes" if told else "no",
        )
    console.print(table)
    by_view: dict[str, list[Accusation]] = {}
    for one in found:
        if one.seed >= HELD_OUT:
            by_view.setdefault(one.view, []).append(one)
    for view, rows in sorted(by_view.items()):
        before = [one for one in rows if one.accused]
        after = [one for one in before if look_up_precision(view, str(one.accused), one.score)]
        for name, some in (("before", before), ("after", after)):
            right = sum(one.right for one in some)
            quiet = sum(one.state == 0 for one in some)
            wrong = f"{1 - right / len(some):.1%}" if some else "-"
            console.print(
                f"{view}: {name} {len(some)} accusations of {len(rows)} slow phases, wrong {wrong}, {quiet} quiet"
            )


def main() -> None:
    """Plays one play, or judges those there are."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", type=Path, required=True)
    options.add_argument("--play")
    options.add_argument("--write", action="store_true")
    options.add_argument("--season")
    chosen = options.parse_args()
    if chosen.play:
        machine, seed, number = chosen.play.split(":")
        keep_play(chosen.keep, machine, int(seed), int(number))
        return
    if chosen.season:
        machine, seed = chosen.season.split(":")
        keep_judged(chosen.keep, machine, int(seed))
        return
    found: list[Accusation] = []
    plays: list[str] = []
    for path in sorted(chosen.keep.glob("judged-*.json")):
        judged = json.loads(path.read_text())
        plays.append(judged["plays"])
        found += [Accusation(**row) for row in judged["accusations"]]
    lines = tabulate(found)
    if chosen.write:
        write_table(lines, ", ".join(plays))
        accusation_gate.read_shown_precisions.cache_clear()
    report(found, lines)


if __name__ == "__main__":
    main()
