"""The labelled machine: what is observed of the plays of a season, phase by phase, beside what is true.

Observed and true phases are matched by job, kind and overlap: an observed phase's truth is the sum of what true phases
have in it, each in proportion to its overlap. Detectors get `Observed` only; who scores them gets both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairlead.kit.testing.machine.cause_words import choose_cause_word
from fairlead.kit.testing.machine.observed import Observed, observe_play
from fairlead.kit.testing.machine.phase_truth import ALONE_ENOUGH, TruePhase, build_phase_truth
from fairlead.kit.testing.machine.season import NS, Season
from fairlead.kit.testing.machine.truth_labels import name_truth_component
from fairlead.kit.testing.machine.views import FULL, View

ABNORMAL_SHARE = 0.5
"""A phase is abnormal that lost this share of the time it takes alone, or more ..."""
BETWEEN_SHARE = 0.1
"""... and normal below this one; those between are neither (see `state`)."""
LEAST_LOST_S = 1.0
"""Who lost less than what a counter each second can tell is never abnormal."""
TRUTH = pa.schema(
    [
        ("play", pa.int32()),
        ("job_id", pa.string()),
        ("kind", pa.string()),
        ("number", pa.int32()),
        ("begin_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("ideal_s", pa.float64()),
        ("usual_s", pa.float64()),
        ("lost_s", pa.float64()),
        ("verdict", pa.string()),
        ("cause_kinds", pa.list_(pa.string())),
        ("causes", pa.list_(pa.string())),
        ("recovered_s", pa.list_(pa.float64())),
        ("features", pa.list_(pa.list_(pa.string()))),
        ("neighbours", pa.list_(pa.string())),
    ]
)
"""True phases. `causes` with `cause_kinds` (job, component) and what their absence gives back, the best first;
`features` (`cause_words`) of those as good as the best."""
LABELS = pa.schema(
    [
        ("play", pa.int32()),
        ("true_phases", pa.int32()),
        ("ideal_s", pa.float64()),
        ("usual_s", pa.float64()),
        ("lost_s", pa.float64()),
        ("lost_share", pa.float64()),
        ("verdict", pa.string()),
        ("culprit", pa.string()),
        ("culprit_kind", pa.string()),
        ("recovered_share", pa.float64()),
        ("causes", pa.list_(pa.string())),
        ("recovered_s", pa.list_(pa.float64())),
        ("features", pa.list_(pa.list_(pa.string()))),
        ("neighbours", pa.list_(pa.string())),
    ]
)
"""What is true of observed phases, in their order. No true phase in it: `true_phases` 0 and nulls."""
FAULTS = pa.schema(
    [
        ("play", pa.int32()),
        ("layer", pa.string()),
        ("component", pa.string()),
        ("kind", pa.string()),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
        ("factor", pa.float64()),
    ]
)


@dataclass(frozen=True)
class LabelledPlay:
    """One play: what was seen, what is true, and what is true of each seen phase (rows of `labels`, in the order of
    `seen.phases`). `unseen`: true phases that no observed one covers."""

    number: int
    seen: Observed
    truth: pa.Table
    labels: pa.Table
    faults: pa.Table
    unseen: int


def build_labelled_play(season: Season, number: int, view: View = FULL) -> LabelledPlay:
    """One play of the season with its truth."""
    [made] = build_labelled_views(season, number, [view])
    return made


def build_labelled_views(season: Season, number: int, views: Sequence[View]) -> Iterator[LabelledPlay]:
    """One play of the season with its truth, as each of these views shows it."""
    play = season.play(number)
    every = build_phase_truth(play)
    faults = pa.Table.from_pylist(
        [
            {
                "play": number,
                "layer": fault.component,
                "component": name_truth_component(play, fault),
                "kind": fault.kind,
                "from_ns": play.origin_ns + int(fault.from_s * NS),
                "to_ns": play.origin_ns + int(fault.to_s * NS),
                "factor": fault.factor,
            }
            for fault in play.faults
        ],
        FAULTS,
    )
    for view in views:
        seen = observe_play(play, view)
        done = set(seen.jobs["job_id"].to_pylist())
        truth = build_labelled_truth([one for one in every if one.job_id in done], number, play.origin_ns)
        labels, unseen = match_labelled_phases(seen.phases, truth, number)
        yield LabelledPlay(number, seen, truth, labels, faults, unseen)


def build_labelled_season(
    season: Season, view: View = FULL, *, folder: Path | None = None, processes: int = 1
) -> Iterator[LabelledPlay]:
    """The plays of a season in order; with `folder` (one for each season and view) kept there and read from there."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    todo = [n for n in range(season.plays) if folder is None or not (folder / f"{n:03d}.done").is_file()]
    if processes > 1 and folder is not None:
        with ProcessPoolExecutor(processes) as pool:
            for number in todo:
                pool.submit(_kept, season, number, view, folder)
        todo = []
    for number in range(season.plays):
        if folder is None:
            yield build_labelled_play(season, number, view)
        else:
            yield read_labelled_play(folder, number) if number not in todo else _kept(season, number, view, folder)


def _kept(season: Season, number: int, view: View, folder: Path) -> LabelledPlay:
    made = build_labelled_play(season, number, view)
    keep_labelled_play(made, folder)
    return made


def keep_labelled_play(made: LabelledPlay, folder: Path) -> None:
    """Writes a play where `read_labelled_play` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    number = made.number
    parts = {
        "phases": made.seen.phases,
        "rollup": made.seen.rollup,
        "jobs": made.seen.jobs,
        "mapping": made.seen.mapping,
        "truth": made.truth,
        "labels": made.labels,
        "faults": made.faults,
    }
    for name, table in parts.items():
        pq.write_table(table, folder / f"{number:03d}.{name}.parquet", compression="zstd")
    (folder / f"{number:03d}.done").write_text(f"{made.seen.interval_ns} {made.unseen}\n")


def read_labelled_play(folder: Path, number: int) -> LabelledPlay:
    """A play that `labelled` has kept."""

    def table(name: str) -> pa.Table:
        return pq.read_table(folder / f"{number:03d}.{name}.parquet")

    interval_ns, unseen = (int(word) for word in (folder / f"{number:03d}.done").read_text().split())
    seen = Observed(table("phases"), table("rollup"), table("jobs"), table("mapping"), interval_ns)
    return LabelledPlay(number, seen, table("truth"), table("labels"), table("faults"), unseen)


def build_labelled_truth(phases: Sequence[TruePhase], play: int, origin_ns: int) -> pa.Table:
    """True phases as rows of TRUTH."""
    return pa.Table.from_pylist(
        [
            {
                "play": play,
                "job_id": one.job_id,
                "kind": one.kind,
                "number": one.number,
                "begin_ns": origin_ns + int(one.begin_s * NS),
                "end_ns": origin_ns + int(one.end_s * NS),
                "ideal_s": one.ideal_s,
                "usual_s": one.usual_s,
                "lost_s": one.lost_s,
                "verdict": one.verdict,
                "cause_kinds": [cause.kind for cause in one.causes],
                "causes": [cause.name for cause in one.causes],
                "recovered_s": [cause.recovered_s for cause in one.causes],
                "features": [list(cause.features) for cause in one.causes],
                "neighbours": list(one.neighbours),
            }
            for one in phases
        ],
        TRUTH,
    )


def match_labelled_phases(phases: pa.Table, truth: pa.Table, play: int) -> tuple[pa.Table, int]:
    """LABELS of observed phases; how many true ones none of them covers."""
    by_job: dict[tuple[str, str], list[int]] = {}
    keys = zip(phases["job_id"].to_pylist(), phases["kind"].to_pylist(), strict=True)
    for row, key in enumerate(keys):
        by_job.setdefault(key, []).append(row)
    start, end = phases["start_ns"].to_numpy(), phases["end_ns"].to_numpy()
    within: list[list[tuple[float, dict[str, Any]]]] = [[] for _ in range(phases.num_rows)]
    unseen = 0
    for one in truth.to_pylist():
        rows = np.array(by_job.get((one["job_id"], one["kind"]), []), np.int64)
        overlap = np.minimum(end[rows], one["end_ns"]) - np.maximum(start[rows], one["begin_ns"])
        whole = float(overlap[overlap > 0].sum())
        unseen += not whole
        for row, length in zip(rows[overlap > 0], overlap[overlap > 0], strict=True):
            within[int(row)].append((float(length) / whole, one))
    return pa.Table.from_pylist([_label(parts, play) for parts in within], LABELS), unseen


def _label(parts: Sequence[tuple[float, dict[str, Any]]], play: int) -> dict[str, object]:
    if not parts:
        return {"play": play, "true_phases": 0}
    ideal, usual, lost = (
        float(sum(share * one[name] for share, one in parts)) for name in ("ideal_s", "usual_s", "lost_s")
    )
    back: dict[tuple[str, str], float] = {}
    for share, one in parts:
        for kind, name, seconds in zip(one["cause_kinds"], one["causes"], one["recovered_s"], strict=True):
            back[(kind, name)] = back.get((kind, name), 0.0) + share * seconds
    ranked = sorted(back, key=lambda who: (-back[who], who))
    worst = max(parts, key=lambda part: part[0] * part[1]["lost_s"])[1]
    features = dict(zip(zip(worst["cause_kinds"], worst["causes"], strict=True), worst["features"], strict=True))
    row: dict[str, object] = {
        "play": play,
        "true_phases": len(parts),
        "ideal_s": ideal,
        "usual_s": usual,
        "lost_s": lost,
        "lost_share": lost / ideal,
        "verdict": worst["verdict"],
        "causes": [name for _, name in ranked],
        "recovered_s": [back[who] for who in ranked],
        "features": [features.get(who, []) for who in ranked],
        "neighbours": sorted({name for _, one in parts for name in one["neighbours"]}),
    }
    if ranked and back[ranked[0]] > 0:
        row |= {"culprit_kind": ranked[0][0], "culprit": ranked[0][1], "recovered_share": back[ranked[0]] / lost}
        if back[ranked[0]] < ALONE_ENOUGH * lost:
            row["verdict"] = "many_neighbours"
        elif ranked[0][0] == "component":
            row["verdict"] = "component"
        elif features.get(ranked[0]):
            row["verdict"] = choose_cause_word(features[ranked[0]])
    return row


def classify_labelled_phases(labels: pa.Table) -> np.ndarray:
    """Of each observed phase: 1 abnormal, 0 normal, -1 neither (between, or nothing is true of it)."""
    share = labels["lost_share"].to_numpy(zero_copy_only=False)
    lost = labels["lost_s"].to_numpy(zero_copy_only=False)
    out = np.full(len(share), -1, np.int8)
    out[(share < BETWEEN_SHARE) | (lost < LEAST_LOST_S / 2)] = 0
    out[(share >= ABNORMAL_SHARE) & (lost >= LEAST_LOST_S)] = 1
    return out
