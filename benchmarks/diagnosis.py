"""Diagnosis against the labelled machine: abnormal phases, culprits, sick components, what is left with less to see.

`python benchmarks/diagnosis.py [--quick] [--seeds 101,102,103 | --tuning] [--plays N] [--only PART ...]
[--keep FOLDER]` with parts detectors, culprits, health, curves, ordinary. Everything is simulated; the labels come
from counterfactual runs (docs/explanation/labelled-machine.md) and no detector sees them. Seeds 1 to 3 are for tuning,
the table's begin at 101.

How phases are counted. Abnormal: lost 50 % of the time they take alone, or more, and 1 s. Normal: lost less than 10 %,
or less than 0.5 s. Those between count neither way; how many of them are called abnormal is printed. In the rows `all`
phases that lost 10 % and 1 s are abnormal and all others normal.

Rate-only detectors cannot tell a run that is slow by chance from one somebody slowed down. The whole diagnosis goes the
product's way: phases that may have lost half of their time (`expected.CANDIDATES`) are asked for their cause, and are
abnormal only if attribution names one (a neighbour, neighbours, a component).

How causes are counted, of all incidents that were candidates, named or not. Top-1: the first named is the best cause,
or gives back 95 % of what that does. Category: the heaviest feature of the culprit named (of the best cause, if it is
another), or `mixed` where two of its features weigh a quarter each; `word for word` is stricter.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from _clustering_detectors import OneStageParams, one_stage, two_stage
from _diagnosis_health import health
from _diagnosis_scenes import Plays, scenes
from _diagnosis_scores import Score, best_threshold, reliability, score, share
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.explain.analysis.anomalies.expectation import CANDIDATES, ExpectedLimits, judge_by_expectation
from fairlead.explain.analysis.interference.attribution import attribute_phase
from fairlead.kit.testing.machine.labelled import BETWEEN_SHARE, LEAST_LOST_S, classify_labelled_phases
from fairlead.kit.testing.machine.phase_truth import TIED
from fairlead.kit.testing.machine.population import TRIVIAL_BYTES
from fairlead.kit.testing.machine.season import build_ordinary_season, build_small_season
from fairlead.kit.testing.machine.views import FULL, ORDINARY, View

PARTS = ("detectors", "culprits", "health", "curves", "ordinary")
WEAK = replace(CANDIDATES, lost_share=BETWEEN_SHARE, least_lost_s=LEAST_LOST_S)
"""What is asked about where everything that lost a tenth counts."""
NO_CAUSE = ("unknown", "own")
TRIVIAL_OPS = 5000.0
"""A job of fewer metadata operations, that moves less than Beacon's 200 MB at the scale of the season's volumes, has
trivial I/O."""
Figures = dict[str, Any]
Said = dict[str, Any]
console = Console(width=150)


def main() -> None:
    """Plays, judges, prints, and adds a line to the history."""
    options = argparse.ArgumentParser(description="Diagnosis against the labelled machine")
    options.add_argument("--quick", action="store_true", help="a few short plays of one seed")
    options.add_argument("--seeds", default="101,102,103")
    options.add_argument("--tuning", action="store_true", help="seeds 1 to 3; nothing is added to the history")
    options.add_argument("--plays", type=int, default=30)
    options.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options.add_argument("--keep", type=Path, help="folder in which seasons are kept and looked for")
    chosen = options.parse_args()
    seeds = [1, 2, 3] if chosen.tuning else [int(word) for word in chosen.seeds.split(",")]
    plays, seconds = (3, 1800) if chosen.quick else (chosen.plays, 3600)
    seeds = seeds[:1] if chosen.quick else seeds
    figures: Figures = {"quick": chosen.quick, "seeds": seeds, "plays": plays}
    began = time.perf_counter()
    if {"detectors", "culprits"} & set(chosen.only):
        seasons = [Plays.of(build_small_season(seed, plays, seconds), FULL, chosen.keep) for seed in seeds]
        figures["small"] = whole(seasons, "small: client trace, forwarders, targets, metadata servers", chosen.only)
    if "ordinary" in chosen.only:
        seasons = [Plays.of(build_ordinary_season(seed, plays, seconds), ORDINARY, chosen.keep) for seed in seeds]
        figures["ordinary"] = whole(seasons, "the ordinary site: accounting, job_stats, target counters, logs", PARTS)
    if "health" in chosen.only:
        figures["health"] = health(seeds, chosen.quick, console)
    if "curves" in chosen.only:
        figures["curves"] = curves(seeds, min(plays, 8), seconds, chosen.keep)
    console.print(f"{time.perf_counter() - began:.0f} s")
    if not chosen.tuning:
        append("diagnosis", figures)


def whole(seasons: Sequence[Plays], title: str, parts: Sequence[str]) -> Figures:
    """The tables of one kind of site."""
    figures = population(seasons, title)
    said = [judgements(season) for season in seasons]
    if "culprits" in parts:
        figures["culprits"] = culprits(seasons, said)
    figures["detectors"] = detectors(seasons, said)
    return figures


def population(seasons: Sequence[Plays], title: str) -> Figures:
    """What there is: jobs, abnormal ones, causes."""
    n: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for season in seasons:
        states, acting = classify_labelled_phases(season.labels), _acting(season)
        names, words = season.phases["job_id"].to_pylist(), season.labels["verdict"].to_pylist()
        lost = season.labels["lost_s"].to_numpy(zero_copy_only=False)
        worst: dict[str, int] = {}
        for row in np.flatnonzero(states == 1).tolist():
            if names[row] in acting and lost[row] > (lost[worst[names[row]]] if names[row] in worst else 0.0):
                worst[names[row]] = row
        causes.update(str(words[row]) for row in worst.values())
        n.update(
            jobs=sum(play.seen.jobs.num_rows for play in season.plays),
            acting=len(acting),
            abnormal_jobs=len(worst),
            phases=len(states),
            incidents=int((states == 1).sum()),
            between=int((states == -1).sum()),
            unseen=sum(play.unseen for play in season.plays),
            true_phases=sum(play.truth.num_rows for play in season.plays),
        )
    abnormal = max(n["abnormal_jobs"], 1)
    console.rule(title)
    console.print(
        f"{n['jobs']} jobs, {n['acting']} with non-trivial I/O, {n['abnormal_jobs']} of these abnormal"
        f" ({n['abnormal_jobs'] / max(n['acting'], 1):.1%}); {n['phases']} observed phases, {n['incidents']} abnormal"
        f" (incidents), {n['between']} between; {n['unseen']} of {n['true_phases']} true phases not seen as phases"
    )
    shares = [f"{word} {count} ({count / abnormal:.0%})" for word, count in causes.most_common()]
    console.print("worst cause of each abnormal job: " + ", ".join(shares))
    return dict(n) | {"causes": dict(causes)}


def _acting(season: Plays) -> set[str]:
    """Jobs with non-trivial I/O."""
    table = season.phases.select(["job_id", "bytes", "metadata_ops"]).group_by("job_id")
    sums = table.aggregate([("bytes", "sum"), ("metadata_ops", "sum")])
    moved, asked = (pc.fill_null(sums[f"{name}_sum"], 0).to_numpy() for name in ("bytes", "metadata_ops"))
    least = TRIVIAL_BYTES * season.season.mix.volume_scale
    return set(sums["job_id"].filter((moved >= least) | (asked >= TRIVIAL_OPS)).to_pylist())


def judgements(season: Plays) -> Said:
    """What each rate-only detector says of the phases of a season, by name."""
    weaker = ExpectedLimits(lost_share=BETWEEN_SHARE, least_lost_s=LEAST_LOST_S)
    return {
        "expected": judge_by_expectation(season.phases, season.phases),
        "expected, all": judge_by_expectation(season.phases, season.phases, weaker),
        "candidates": judge_by_expectation(season.phases, season.phases, CANDIDATES),
        "candidates, all": judge_by_expectation(season.phases, season.phases, WEAK),
        "two-stage": two_stage(season.phases),
        "one-stage": one_stage(season.phases),
        "one-stage, logarithms": one_stage(season.phases, OneStageParams(logarithms=True)),
    }


def stacked(seasons: Sequence[Plays], of: Callable[[int, Plays], Any]) -> np.ndarray:
    """One array of all seasons."""
    return np.concatenate([np.asarray(of(i, season)) for i, season in enumerate(seasons)])


def detectors(seasons: Sequence[Plays], said: Sequence[Said]) -> Figures:
    """F1 of every detector, and the reliability of what the expected one says."""
    play = stacked(seasons, lambda i, s: s.labels["play"].to_numpy() + 1000 * i)
    strong, every = (
        stacked(seasons, lambda _, s: classify_labelled_phases(s.labels)),
        stacked(seasons, lambda _, s: _lost_any(s)),
    )
    by_law, by_noise = stacked(seasons, lambda _, s: _slower(s)[0]), stacked(seasons, lambda _, s: _slower(s)[1])
    rows: list[tuple[str, str, np.ndarray]] = []
    if "explained" in said[0]:
        rows += [
            ("whole diagnosis", "lost >= 50 %", stacked(seasons, lambda i, _: said[i]["explained"])),
            ("whole diagnosis", "all", stacked(seasons, lambda i, _: said[i]["explained, all"])),
        ]
    rows += [
        ("expected, by rate", "lost >= 50 %", stacked(seasons, lambda i, _: said[i]["expected"].abnormal)),
        ("two-stage, by rate", "lost >= 50 %", stacked(seasons, lambda i, _: said[i]["two-stage"].abnormal)),
        ("one-stage, as published", "lost >= 50 %", stacked(seasons, lambda i, _: said[i]["one-stage"].abnormal)),
        (
            "one-stage, of logarithms",
            "lost >= 50 %",
            stacked(seasons, lambda i, _: said[i]["one-stage, logarithms"].abnormal),
        ),
        ("oracle of the law of noise", "lost >= 50 %", by_law >= best_threshold(by_law, strong)),
        ("oracle of each noise", "lost >= 50 %", by_noise >= best_threshold(by_noise, strong)),
        ("expected, by rate", "all", stacked(seasons, lambda i, _: said[i]["expected, all"].abnormal)),
        ("two-stage, by rate", "all", stacked(seasons, lambda i, _: said[i]["two-stage"].abnormal)),
        ("oracle of the law of noise", "all", by_law >= best_threshold(by_law, every)),
        ("oracle of each noise", "all", by_noise >= best_threshold(by_noise, every)),
    ]
    table = Table("detector", "phases", "precision", "recall", "F1", "95 %", "between called", title="abnormal phases")
    figures: Figures = {}
    for name, which, abnormal in rows:
        states = every if which == "all" else strong
        got = score(abnormal, states, play)
        between = f"{int((abnormal & (states == -1)).sum())} of {int((states == -1).sum())}"
        table.add_row(
            name,
            which,
            f"{got.precision:.3f}",
            f"{got.recall:.3f} ({got.found}/{got.wanted})",
            f"{got.f1:.3f}",
            f"{got.low:.3f}-{got.high:.3f}",
            between,
        )
        figures[f"{name}, {which}"] = told(got)
    console.print(table)
    sure = stacked(seasons, lambda i, _: said[i]["expected"].confidence)
    silent = ~np.isfinite(sure)
    console.print(f"not judged: {int(silent.sum())} phases, {int((silent & (strong == 1)).sum())} of them abnormal")
    known = ~silent & (strong >= 0)
    figures["reliability"] = reliable("lost 50 % or more, by rate", sure[known], strong[known] == 1)
    return figures


def _lost_any(season: Plays) -> np.ndarray:
    lost, part = (season.labels[name].to_numpy(zero_copy_only=False) for name in ("lost_s", "lost_share"))
    return np.where(np.isfinite(part), (part >= BETWEEN_SHARE) & (lost >= LEAST_LOST_S), -1).astype(np.int8)


def _slower(season: Plays) -> tuple[np.ndarray, np.ndarray]:
    """What the oracles look at: how many times longer a phase took than it does without noise, by its truth (this one
    knows the usual time and the law of the noise: its threshold is the best there is), and than it does with its own
    noise, by its records."""
    names = ("ideal_s", "usual_s", "lost_s")
    ideal, usual, lost = (season.labels[name].to_numpy(zero_copy_only=False) for name in names)
    return (ideal + lost) / usual, season.phases["active_ns"].to_numpy() / 1e9 / ideal


def told(got: Score) -> Figures:
    """A score for the history."""
    return {name: rounded(value) for name, value in asdict(got).items()}


def rounded(value: float) -> float | None:
    """Four places; None for what is no number."""
    return round(float(value), 4) if np.isfinite(value) else None


def reliable(what: str, sure: np.ndarray, right: np.ndarray) -> list[list[float | None]]:
    """Prints a table of what was said against what was true."""
    table = Table("confidence", "phases", "mean said", "true", title=f"reliability: {what}")
    rows = reliability(sure, right)
    for low, high, n, mean, true in rows:
        table.add_row(f"{low:.2f}-{high:.2f}", str(n), f"{mean:.3f}" if n else "", f"{true:.3f}" if n else "")
    console.print(table)
    return [[rounded(value) for value in row] for row in rows]


def culprits(seasons: Sequence[Plays], said: Sequence[Said]) -> Figures:
    """Who is named, against who it was; adds what is `explained` to what was said."""
    n: Counter[str] = Counter()
    words: Counter[tuple[str, str]] = Counter()
    accusations: list[tuple[float, bool]] = []
    for season, judgement in zip(seasons, said, strict=True):
        states = classify_labelled_phases(season.labels)
        strong, weak = judgement["candidates"].abnormal, judgement["candidates, all"].abnormal
        judgement["explained"], judgement["explained, all"] = strong.copy(), weak.copy()
        labels = season.labels.to_pylist()
        n["incidents"] += int((states == 1).sum())
        for row, scene in scenes(season, judgement["candidates"], np.flatnonzero(strong | weak)):
            found = attribute_phase(scene)
            if not found.accused:
                judgement["explained"][row] = judgement["explained, all"][row] = False
            if strong[row] and states[row] >= 0:
                accusations += _counted(found, labels[row], states[row] == 1, n, words)
    figures: Figures = {name: int(value) for name, value in n.items()}
    table = Table("", "of all candidates", "95 %", "of those named", "95 %", title="incidents: culprits and categories")
    for name in ("top1", "top1, ties apart", "top3", "category", "category, word for word"):
        cells = []
        for part, of in (("", n["found"]), ("named, ", n["named"])):
            p, low, high = share(n[part + name], of)
            cells += [f"{n[part + name]}/{of} = {p:.3f}", f"{low:.3f}-{high:.3f}"]
            figures[f"{part}{name} share"] = rounded(p)
        table.add_row(name, *cells)
    console.print(table)
    console.print(
        f"{n['found']} of {n['incidents']} incidents were candidates; accused {n['accused']} times, wrongly"
        f" {n['accused wrongly']} ({n['quiet, accused']} of them of a phase that lost nothing); unknown {n['unknown']}"
    )
    console.print("true, told: " + ", ".join(f"{a} -> {b} {count}" for (a, b), count in words.most_common(16)))
    sure, right = np.array([s for s, _ in accusations]), np.array([r for _, r in accusations], np.bool_)
    figures["words"] = [[a, b, count] for (a, b), count in words.most_common()]
    figures["reliability"] = reliable("whom attribution names first, accused or not", sure, right)
    return figures


def _counted(
    found: Any, label: Figures, abnormal: bool, n: Counter[str], words: Counter[tuple[str, str]]
) -> list[tuple[float, bool]]:
    """Counts what attribution says of one phase; how sure it is of the first it names, and whether it is right."""
    good = _causes(label)
    named = [(one.who.kind == "job", one.who.id) for one in found.culprits]
    hit = bool(named) and named[0] in good
    many = found.verdict == "many_neighbours"
    if found.accused:
        wrong = not (abnormal and (hit or (many and label["verdict"] == "many_neighbours")))
        n.update({"accused": 1, "accused wrongly": int(wrong), "quiet, accused": int(not abnormal)})
    if abnormal:
        right = {
            "found": True,
            "top1": hit,
            "top3": any(one in good for one in named[:3]),
            "top1, ties apart": bool(named) and named[0][1] == label["culprit"],
            "category": found.verdict in _right_words(label, named[0] if hit else None),
            "category, word for word": found.verdict == label["verdict"],
        }
        n.update({name: int(value) for name, value in right.items()} | {"unknown": int(found.verdict in NO_CAUSE)})
        if found.accused:
            n.update({"named": 1} | {f"named, {name}": int(value) for name, value in right.items()})
        words[str(label["verdict"]), found.verdict] += 1
    return [(found.culprits[0].score, hit and abnormal)] if found.culprits and not many else []


def _causes(label: Figures) -> set[tuple[bool, str]]:
    """Right answers, (is a job, name): the best cause and those as good."""
    causes, back = label["causes"] or [], label["recovered_s"] or []
    if not back or back[0] <= 0:
        return set()
    return {(name.isdigit(), name) for name, seconds in zip(causes, back, strict=True) if seconds >= TIED * back[0]}


def _right_words(label: Figures, named: tuple[bool, str] | None) -> set[str]:
    """Right categories, where this cause was named (None: a wrong one was, and the best cause's count)."""
    if label["verdict"] in ("many_neighbours", "component") and (named is None or named[1] == label["culprit"]):
        return {label["verdict"]}
    features = dict(zip(label["causes"] or [], label["features"] or [], strict=True))
    of = features.get(named[1] if named else label["culprit"]) or []
    return {label["verdict"]} if not of else {of[0], *(["mixed"] if len(of) > 1 else [])}


def curves(seeds: Sequence[int], plays: int, seconds: int, keep: Path | None) -> Figures:
    """F1, culprits and categories with more noise, less seen, clocks that are off, fewer runs."""
    layers = ("client", "forwarder", "target", "metadata")
    cases: list[tuple[str, Figures, View, int]] = [
        ("as it is", {}, FULL, plays),
        ("no noise", {"noise": 0.0}, FULL, plays),
        ("noise x 2", {"noise": 2.0}, FULL, plays),
        ("noise of well days", {"noise_name": "well"}, FULL, plays),
        ("noise of all days", {"noise_name": "all"}, FULL, plays),
        *((f"no {layer}", {}, View(without=(layer,)), plays) for layer in layers),
        ("counters every 10 s", {}, View(without=("client",), interval_s=10), plays),
        ("clocks off by 0.1 s", {}, View(skew_s=0.1), plays),
        ("clocks off by 2 s", {}, View(skew_s=2.0), plays),
        ("three plays of history", {}, FULL, min(plays, 3)),
        ("one play", {}, FULL, 1),
    ]
    names = ("whole diagnosis", "expected, by rate", "two-stage, by rate")
    table = Table("", "incidents", *names, "top-1", "category", "accused wrongly", title="F1 and culprits with less")
    figures: Figures = {}
    for name, more, view, many in cases:
        seasons = [Plays.of(build_small_season(seed, many, seconds, **more), view, keep) for seed in seeds]
        console.quiet = True
        try:
            got = figures[name] = whole(seasons, name, PARTS)
        finally:
            console.quiet = False
        who, f1 = got["culprits"], got["detectors"]
        table.add_row(
            name,
            str(got["incidents"]),
            *(f"{f1[f'{one}, lost >= 50 %']['f1']}" for one in names),
            f"{who['top1 share']}",
            f"{who['category share']}",
            f"{who.get('accused wrongly', 0)} of {who.get('accused', 0)}",
        )
    console.print(table)
    return figures


if __name__ == "__main__":
    main()
