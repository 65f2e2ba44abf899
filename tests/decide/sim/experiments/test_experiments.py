"""Experiments: bad specs are refused naming the field; pieces, points, conclusions and pictures say what rows say."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fairlead.core.errors import ConfigError, UsageError
from fairlead.core.model.site import Layer
from fairlead.decide.policies.allocation.contract import NONE, Applications, Decision
from fairlead.decide.sim.experiments import (
    conclusions,
    experiment_spec,
    papers,
    pieces,
)
from fairlead.decide.sim.experiments import (
    results as answer,
)
from fairlead.decide.sim.experiments import (
    scheduling_study as study,
)
from fairlead.decide.sim.experiments.cases import MEASURES, Row, build_case, build_case_rows, prepare_case_set
from fairlead.decide.sim.experiments.disturbances import compute_disturbance_speeds
from fairlead.decide.sim.experiments.summary import Results
from fairlead.show.report.simulation.pictures import draw_picture
from fairlead.show.report.simulation.simulation_page import build_paper_simulation_page, build_simulation_page

DRAWN = """
name = "small"
policies = ["best-bandwidth+greedy-clairvoyant", "n-sys+greedy-clairvoyant"]
sets = 2
[workload]
kind = "published"
applications = [10]
loads = [0.5, 1.0]
[machine]
resources = 5
cores = 120
"""
LISTED = """
name = "listed"
policies = ["static+greedy-clairvoyant"]
[workload]
kind = "applications"
counts = [1, 2, 4]
[[workload.rows]]
name = "writer"
volume_bytes = 1e12
compute_s = 1000
cores = 100
phases = 4
bandwidth_bytes_per_s = [1e9, 1.8e9, 2e9]
[[workload.rows]]
volume_bytes = 5e11
compute_s = 500
cores = 50
bandwidth_bytes_per_s = [1e9, 1.5e9, 1.4e9]
"""


def experiment(text: str = DRAWN) -> experiment_spec.Experiment:
    return experiment_spec.read_experiment_spec(text, "test.toml")


@pytest.mark.parametrize(
    ("text", "change", "named"),
    [
        (LISTED, ("volume_bytes = 1e12", "volume_bytes = -1"), r"workload\.rows\[0\]\.volume_bytes"),
        (LISTED, ("compute_s = 500", "compute_s = nan"), r"workload\.rows\[1\]\.compute_s"),
        (LISTED, ("[1e9, 1.8e9, 2e9]", "[1e9, 2e9]"), r"rows\[0\]\.bandwidth_bytes_per_s.*gap"),
        (LISTED, ("[1e9, 1.8e9, 2e9]", "[1e9, 0, 2e9]"), r"gap at 2 resources"),
        (LISTED, ("[1e9, 1.8e9, 2e9]", "[1e9, nan, 2e9]"), r"gap at 2 resources"),
        (LISTED, ("cores = 100", "cores = 1000"), r"hold 1050 cores, the machine has 480"),
        (LISTED, ("counts = [1, 2, 4]", "counts = [1, 4, 2]"), r"workload\.counts"),
        (LISTED, ("counts = [1, 2, 4]", "counts = [1, 2, 40]"), r"workload\.counts.*40 resources of 20"),
        (LISTED, ("phases = 4", "phases = 0"), r"rows\[0\]\.phases"),
        (LISTED, ("volume_bytes = 1e12", "volume_bytes = 1e-3"), r"rows\[0\]\.volume_bytes: I/O of .* clock"),
        (LISTED, ("volume_bytes = 1e12", "volume_bytes = 1e308"), r"rows\[0\]\.volume_bytes: 1e\+308 is too large"),
        (LISTED, ("[1e9, 1.8e9, 2e9]", "[1e9, 1.8e9, 1e300]"), r"rows\[0\]\.bandwidth_bytes_per_s.*too fast"),
        (LISTED, ("phases = 4", "phases = 4000000"), r"rows\[0\]\..*"),
        (LISTED, ("[workload]", "[machine]\nresources = 1000000000\n[workload]"), r"machine\.resources.*too many"),
        (LISTED, ("[workload]", "[machine]\nresorces = 9\n[workload]"), r"machine: .*'resorces'.*perhaps resources"),
        (LISTED, ("[workload]", f"seed = {1 << 63}\n[workload]"), r"seed: 9223372036854775808 is .* too large"),
        (LISTED, ('name = "listed"', 'name = "a\\nb"'), r"name: is too long, or not one line"),
        (LISTED, ('name = "listed"\n', ""), r"the key 'name' is missing"),
        (DRAWN, ("applications = [10]", "applications = [100000000]"), r"workload\.applications.*too many"),
        (DRAWN, ("loads = [0.5", "loads = [1e-300"), r"workload\.loads.*1e-300"),
        (LISTED, ('\nname = "listed"', '\ufeffname = "listed"'), None),
        (LISTED, ("[workload]", "[workload]\nx = " + "[" * 100_000), r"nested too deeply"),
        (LISTED, ("phases = 4", "fases = 4"), r"workload\.rows.*'fases'.*perhaps phases"),
        (DRAWN, ("best-bandwidth+greedy-clairvoyant", "best-bandwith+greedy-clairvoyant"), r"perhaps best-bandwidth\+"),
        (DRAWN, ("loads = [0.5, 1.0]", "loads = [0.5, 2.5]"), r"workload\.loads.*below 2"),
        (DRAWN, ("loads = [0.5, 1.0]", "loads = []"), r"workload\.loads"),
        (DRAWN, ("applications = [10]", "applications = []"), r"workload\.applications"),
        (DRAWN, ("sets = 2", "sets = 0"), r"sets: no set"),
        (DRAWN, ("sets = 2", "sets = 2\nseeds = 3"), r"seeds"),
        (DRAWN, ("sets = 2", "sets = 1000000000"), r"sets: these are more than"),
        (DRAWN, ("cores = 120", "cores = 0"), r"machine\.cores"),
        (DRAWN, ("cores = 120", "cores = 120\n[window]\nfrom_s = 10\nuntil_s = 5"), r"window: from 10"),
        (DRAWN, ("cores = 120", "cores = 120\n[noise]\nshare = 0.7"), r"noise\.share"),
        (DRAWN, ("cores = 120", "cores = 120\n[[degraded]]\nresource = 5\nspeed = 0.5"), r"degraded\[0\]\.resource"),
        (DRAWN, ("cores = 120", "cores = 120\n[[degraded]]\nresource = 1\nspeed = 0.5\nto_s = nan"), r"degraded\[0\]"),
        (DRAWN, ("cores = 120", "cores = 120\n[noise]\nshare = 0.1\nevery_s = nan"), r"noise\.every_s"),
        (DRAWN, ("cores = 120", "cores = 120\n[noise]\nshare = 0.1\nevery_s = 1e-9"), r"noise\.every_s"),
        (DRAWN, ("cores = 120", "cores = 120\n[faults]\nper_day = nan"), r"faults"),
        (DRAWN, ("cores = 120", "cores = 120\n[faults]\nper_day = 1\nlasts_s = nan"), r"faults"),
        (DRAWN, ("cores = 120", "cores = 120\n[faults]\nper_day = 1e12"), r"faults\.per_day"),
        (LISTED, ("phases = 4", "phases = 1000000000"), r"rows\[0\]\.phases"),
        (DRAWN, ("cores = 120", "cores = 120\n[[picture]]\ntitle = 'x'\nmeasure = 'idel'"), r"measure.*perhaps idle"),
        (DRAWN, ('kind = "published"', 'kind = "drawn"'), r"workload"),
        (DRAWN, ("name =", "name ="), None),
        (LISTED, ("name =", "name ="), None),
    ],
)
def test_bad_specs_are_refused_naming_the_field(text: str, change: tuple[str, str], named: str | None) -> None:
    changed = text.replace(*change)
    if named is None:
        assert experiment_spec.read_experiment_spec(changed, "test.toml").chosen
        return
    with pytest.raises(ConfigError) as refusal:
        experiment_spec.read_experiment_spec(changed, "test.toml")
    assert re.search(named, str(refusal.value), re.DOTALL), str(refusal.value)
    assert refusal.value.where == "test.toml"


def test_an_empty_history_is_refused() -> None:
    text = LISTED.partition("[[workload.rows]]")[0] + "rows = []\n"
    with pytest.raises(ConfigError, match=r"workload\.rows: no application: the history is empty"):
        experiment_spec.read_experiment_spec(text, "test.toml")


def test_the_studys_figures_are_sound_and_share_their_runs() -> None:
    figures = study.list_study_figures()
    assert [one.figure for one in figures] == [5, 6, 7, 8, 9, 10, 12, 13]
    together = len(pieces.list_piece_keys(figures))
    apart = sum(len(one.points) * one.sets * len(one.chosen) * len(one.information) for one in figures)
    assert together < 0.6 * apart
    with pytest.raises(UsageError, match="no figure 11"):
        study.build_study(figure=11)


def test_pieces_hold_what_is_left_once_each() -> None:
    wanted = pieces.list_piece_keys([experiment()])
    assert len(wanted) == 2 * 2 * 2
    keys = list(wanted)
    left = pieces.cut_pieces(wanted, keys[:3])
    rows = [pieces.build_piece_key(row) for one in left for row in pieces.simulate_piece(one)]
    assert sorted(rows, key=str) == sorted(keys[3:], key=str)
    assert pieces.cut_pieces(wanted, keys) == []


def test_a_row_depends_on_nothing_else_that_is_run() -> None:
    from fairlead.decide.registered_policies import find_registered_policy

    case = build_case(experiment())
    both = [(name, "exact", find_registered_policy(name)) for name in ("random+random", "n-sys+greedy-clairvoyant")]
    together = list(build_case_rows(case, 10, 0.5, 1, both))
    assert [next(build_case_rows(case, 10, 0.5, 1, [one])) for one in both] == together
    assert next(build_case_rows(case, 10, 0.5, 1, reversed(both))) == together[1]


def test_written_down_applications_run_and_disturbances_slow_them() -> None:
    from fairlead.decide.registered_policies import find_registered_policy

    name = "static+greedy-clairvoyant"
    sound = experiment(LISTED)
    noisy = experiment(
        LISTED + "[noise]\nshare = 0.3\n[faults]\nper_day = 20\n[[degraded]]\nresource = 0\nspeed = 0.5\n"
    )

    def slowdown(one: experiment_spec.Experiment) -> float:
        row = next(build_case_rows(build_case(one), 2, None, 0, [(name, "exact", find_registered_policy(name))]))
        assert row.slowdown_mean is not None
        return row.slowdown_mean

    assert slowdown(sound) > 1 - 1e-9
    assert slowdown(noisy) > 1.05 * slowdown(sound)


def test_who_is_granted_nothing_does_no_io_for_free() -> None:
    class Nothing:
        def decide(self, applications: Applications, pool: Layer, rng: np.random.Generator) -> Decision:  # noqa: ARG002
            k = len(applications)
            return Decision(np.full(k, NONE), np.full((k, 1), NONE))

    with pytest.raises(UsageError, match="application 0 is granted nothing"):
        list(build_case_rows(build_case(experiment(LISTED)), 2, None, 0, [("nothing", "exact", Nothing())]))


def test_disturbances_multiply_and_end() -> None:
    slow = [
        experiment_spec.Degradation(resource=1, speed=0.5, from_s=10.0, to_s=30.0),
        experiment_spec.Degradation(resource=1, speed=0.5, from_s=20.0),
    ]
    found = compute_disturbance_speeds(2, 100.0, experiment_spec.Noise(), experiment_spec.Faults(), slow, (1,))
    assert found is not None
    assert found.initial.tolist() == [1.0, 1.0]
    assert list(zip(found.time_s, found.resource, found.speed, strict=True)) == [
        (10.0, 1, 0.5),
        (20.0, 1, 0.25),
        (30.0, 1, 0.5),
    ]
    assert compute_disturbance_speeds(2, 100.0, experiment_spec.Noise(), experiment_spec.Faults(), [], (1,)) is None


def test_sharing_and_the_studys_window_change_what_is_measured() -> None:
    from fairlead.decide.registered_policies import find_registered_policy

    name = "best-bandwidth+greedy-clairvoyant"
    found = {}
    for more in ("", '[sharing]\nkind = "exclusive"', '[sharing]\nkind = "set-10"', '[window]\nkind = "study"'):
        case = build_case(experiment(DRAWN + more))
        row = next(build_case_rows(case, 10, 1.0, 0, [(name, "exact", find_registered_policy(name))]))
        found[more] = (row.slowdown_mean, row.window_s)
        assert row.slowdown_mean is not None
        assert row.slowdown_mean > 1
    assert len(set(found.values())) == 4
    assert found['[window]\nkind = "study"'][1] < found[""][1]


def test_class_mean_curves_are_told_and_true_ones_are_run() -> None:
    one = prepare_case_set(build_case(experiment()), 10, 0.5, 0)
    assert np.array_equal(one.known["exact"].bandwidth, one.true.bandwidth)
    assert not np.array_equal(one.known["class-mean"].bandwidth, one.true.bandwidth)
    assert np.array_equal(one.known["class-mean"].bandwidth[:, 0], one.true.bandwidth[:, 0])


def _row(policy: str, load: float, number: int, **measures: float | None) -> Row:
    blank = dict.fromkeys(Row.__struct_fields__[9:23])
    return Row(
        **{
            **blank,
            "case_id": "c",
            "seed": 1,
            "window": "steady",
            "applications": 30,
            "load": load,
            "set_number": number,
            "policy": policy,
            "information": "exact",
            "load_sys": load,
            "class_slowdown": [],
            "unfinished": 0,
            "window_s": 1.0,
            "events": 1,
            **measures,
        }
    )


def test_points_are_means_with_a_band_and_unknown_is_not_zero() -> None:
    rows = [_row("p+greedy-clairvoyant", 0.5, n, slowdown_mean=float(n)) for n in range(11)]
    rows.append(_row("p+greedy-clairvoyant", 0.5, 11, slowdown_mean=None))
    results = Results.from_rows(rows)
    point = results.compute_point(("c", 30, 0.5, "p+greedy-clairvoyant", "exact"), "slowdown_mean")
    assert point is not None
    assert (point.mean, point.low, point.high, point.sets) == (5.0, 1.0, 9.0, 11)
    nothing = results.compute_point(("c", 30, 0.5, "p+greedy-clairvoyant", "exact"), "idle")
    assert nothing is not None
    assert (nothing.mean, nothing.sets) == (None, 0)
    assert results.compute_point(("c", 30, 0.9, "p+greedy-clairvoyant", "exact"), "idle") is None


def test_conclusions_pass_and_fail_as_rows_say() -> None:
    def made(nsys_high: float, tcpu_low: float) -> dict[str, conclusions.Conclusion]:
        rows = []
        for load in (0.1, 0.2, 0.8, 1.0):
            high = load > 0.5
            slow = {
                "best-bandwidth": 4.0 if high else 1.5,
                "n-sys": nsys_high if high else 2.0,
                "tcpu": 3.0 if high else tcpu_low,
                "static": 6.0,
                "mckp": 5.0,
                "random": 9.0,
            }
            rows += [
                _row(f"{name}+greedy-clairvoyant", load, 0, slowdown_mean=value, idle=value / 10)
                for name, value in slow.items()
            ]
        found = conclusions.draw_conclusions(Results.from_rows(rows), "c", None, (30,), "steady")
        return {one.says: one for one in found}

    first, second = made(3.9, 1.5), made(4.1, 1.6)
    assert first["Nsys crosses BestBdw at high load"].verdict == "pass"
    assert "from 0.80" in first["Nsys crosses BestBdw at high load"].found
    assert second["Nsys crosses BestBdw at high load"].verdict == "fail"
    assert "never" in second["Nsys crosses BestBdw at high load"].found
    assert first["TCPU equals BestBdw at low load"].verdict == "pass"
    assert second["TCPU equals BestBdw at low load"].verdict == "fail"
    assert first["TCPU wins idle time at high load"].verdict == "pass"
    assert first["MCKP slows most of the non-random"].verdict == "fail"
    assert first["Greedy-NC is near Greedy-C"].verdict == "unknown"
    assert first["Static strong for OSTs"].verdict == "unknown"
    assert first["Inaccurate input: TCPU idles <= 4 % more"].verdict == "unknown"


def test_what_inaccurate_input_costs_is_told_of_slowdown_and_of_idle_time_apart() -> None:
    name = "tcpu+greedy-clairvoyant"
    rows = [_row(name, load, 0, slowdown_mean=2.0, idle=0.5) for load in (0.2, 0.8)]
    wrong = [_row(name, 0.2, 0, slowdown_mean=2.2, idle=0.51), _row(name, 0.8, 0, slowdown_mean=2.0, idle=0.5)]
    rows += [msgspec.structs.replace(row, information="class-mean") for row in wrong]
    found = conclusions.draw_conclusions(Results.from_rows(rows), "c", None, (30,), "steady")
    told = {one.says: one for one in found}
    slow, idle = (told[f"Inaccurate input: TCPU {word} <= 4 % more"] for word in ("slows", "idles"))
    assert (slow.verdict, idle.verdict) == ("fail", "pass")
    assert "+5.0% in the mean, at most +10.0% (at 0.20)" in slow.found
    assert "of the whole machine +0.5%, at most +1.0%" in idle.found


def test_who_is_ahead_everywhere_or_alone_has_shown_nothing() -> None:
    rows = [
        _row(f"{name}+greedy-clairvoyant", load, 0, slowdown_mean=value, idle=value)
        for load in (0.1, 0.8)
        for name, value in (("n-sys", 1.5), ("best-bandwidth", 2.0))
    ]
    crossing = {
        one.says: one for one in conclusions.draw_conclusions(Results.from_rows(rows), "c", None, (30,), "steady")
    }
    assert crossing["Nsys crosses BestBdw at high load"].verdict == "fail"
    alone = [_row("static+greedy-clairvoyant", load, 0, slowdown_mean=2.0, idle=0.2) for load in (0.1, 0.8)]
    found = conclusions.draw_conclusions(Results.from_rows(alone), "c", "c", (30,), "steady")
    assert {one.verdict for one in found} == {"unknown"}


def test_a_papers_line_holds_when_it_is_near_enough() -> None:
    assert papers.Line("a", "b", 1.1, 1.0, within=0.2).held is True
    assert papers.Line("a", "b", 1.3, 1.0, within=0.2).held is False
    assert papers.Line("a", "b", None, 1.0, within=0.2).held is None
    assert papers.Line("a", "b", 3.0, wanted=">= 3").held is True
    assert papers.Line("a", "b", 3.0, wanted="> 3").held is False
    page = build_paper_simulation_page(
        papers.PaperReport(paper="p", source="s", lines=(papers.Line("<b>", "m", math.pi, 3.0, within=0.2),))
    )
    assert "&lt;b&gt;" in page
    assert "<script" not in page


def test_pages_hold_lines_bands_and_words_and_no_scripts() -> None:
    one = msgspec.structs.replace(experiment(), title="<i>small</i>")
    rows = [row for piece in pieces.cut_pieces(pieces.list_piece_keys([one])) for row in pieces.simulate_piece(piece)]
    told = answer.draw_results(one, Results.from_rows(rows))
    drawn = [draw_picture(each) for each in told.pictures]
    assert len(drawn) == 2
    assert drawn[0].count('fill-opacity="0.09"') == 2
    assert "BestBdw" in drawn[0]
    assert "10 applications" in drawn[0]
    page = build_simulation_page("x", answer.SimulationAnswer(experiments=[told]), [[("", one) for one in drawn]])
    assert "<script" not in page
    assert "<i>small" not in page
    assert "simulated" in page


def test_labels_leave_out_what_all_share() -> None:
    assert answer.shorten_result_labels([("tcpu+random", "exact"), ("mckp+random", "exact")]) == ["TCPU", "MCKP"]
    assert answer.shorten_result_labels([("tcpu+random", "exact"), ("tcpu+straw", "exact")]) == ["random", "straw"]
    assert answer.shorten_result_labels([("tcpu+random", "exact"), ("tcpu+random", "class-mean")]) == [
        "TCPU, exact",
        "TCPU, class-mean",
    ]


def test_every_key_of_a_spec_and_every_measure_is_in_the_reference() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "reference" / "simulation-spec.md").read_text("utf-8")
    tables = {
        "machine": experiment_spec.Machine,
        "window": experiment_spec.Window,
        "sharing": experiment_spec.Sharing,
        "noise": experiment_spec.Noise,
        "faults": experiment_spec.Faults,
        "degraded": experiment_spec.Degradation,
        "picture": experiment_spec.Picture,
    }
    names = [f"{table}.{key}" for table, kind in tables.items() for key in kind.__struct_fields__]
    for kind in (
        experiment_spec.PublishedWorkload,
        experiment_spec.ListedWorkload,
        experiment_spec.Application,
        experiment_spec.Swf,
        experiment_spec.Table,
        experiment_spec.OwnPast,
    ):
        names += kind.__struct_fields__
    names += [key for key in experiment_spec.Experiment.__struct_fields__ if key not in (*tables, "workload")]
    assert [name for name in (*names, *MEASURES) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", list(papers.PAPERS))
def test_every_papers_experiment_is_there(name: str) -> None:
    assert callable(papers.PAPERS[name].load_comparison())


def test_days_that_are_no_time_are_refused() -> None:
    from fairlead.decide.sim.experiments.trace import compare_on_trace

    for days in (math.nan, 0.0, -1.0):
        with pytest.raises(UsageError, match="not a number of days"):
            compare_on_trace(b"", "trace", ["static-map"], seed=1, days=days, tell=lambda done, of: None)  # noqa: ARG005
