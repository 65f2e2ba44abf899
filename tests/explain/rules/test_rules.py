"""The built-in rules: each fires and stays quiet as it says, its advice is exact, and one fault makes one finding."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.core.model.finding import SEVERITIES, Finding
from fairlead.explain.analysis.costs import COSTS
from fairlead.explain.analysis.file_table import build_file_table
from fairlead.explain.analysis.profile import METRICS, build_profile
from fairlead.explain.rules import rule_description as described
from fairlead.explain.rules.condition import compile_condition
from fairlead.explain.rules.rule import FILE_COLUMNS, NAMES, Rule, decode_rule, list_rule_placeholders
from fairlead.explain.rules.rule_engine import (
    cap_rule_severity,
    evaluate_rules,
    fill_rule_placeholders,
    format_rule_metric,
)
from fairlead.explain.rules.rule_set import find_covered_rules, load_rule_set
from job_building import SHARED, counters, job, sizes

RULES = load_rule_set()
EVERY = pytest.mark.parametrize("rule", list(RULES.values()), ids=list(RULES))
GIB = 1 << 30
CATEGORIES = {
    "access order",
    "alignment",
    "balance",
    "character",
    "I/O mode",
    "library",
    "metadata",
    "overlap",
    "redundant work",
    "request size",
    "striping",
}


# -- every rule --------------------------------------------------------------------------------------------------------


@EVERY
def test_it_fires_on_its_example_and_stays_quiet_on_the_other(rule: Rule) -> None:
    assert compile_condition(rule.when).holds(rule.examples.fires) is True
    assert compile_condition(rule.when).holds(rule.examples.quiet) is False


@EVERY
def test_without_knowledge_it_is_undecided(rule: Rule) -> None:
    assert compile_condition(rule.when).holds({}) is None
    assert compile_condition(rule.when).holds(dict.fromkeys(NAMES)) is None


@EVERY
def test_it_says_what_it_is_after_and_what_shows_it(rule: Rule) -> None:
    assert rule.references
    assert rule.evidence
    assert all(one.text.strip() for one in rule.evidence)
    assert any(one.metric for one in rule.evidence)
    assert rule.category in CATEGORIES
    assert rule.about.strip().endswith(".")
    assert len(rule.title) <= 110
    assert "\n" not in rule.title


@EVERY
def test_placeholders_resolve(rule: Rule) -> None:
    for _, text in rule.list_texts():
        for metrics in ({}, dict.fromkeys(NAMES, 1), rule.examples.fires):
            assert not re.search(r"[{}]", fill_rule_placeholders(text, metrics)), text


@EVERY
def test_what_is_wrong_comes_with_advice(rule: Rule) -> None:
    if rule.severity == "ok":
        assert not rule.advice
        return
    if rule.severity in ("critical", "high", "warning"):
        assert rule.advice
        assert rule.category in ("balance", "metadata") or any(one.code for one in rule.advice)
    for one in rule.advice:
        assert one.text.strip().endswith((".", "?"))
        assert (one.code is None) == (one.language is None)
        assert one.code is None or one.code.strip()


@EVERY
def test_its_cost_is_a_cause_and_bad_findings_are_priced(rule: Rule) -> None:
    assert rule.cost is None or rule.cost in COSTS
    unpriced = {"no_mpiio", "file_misaligned", "no_overlap"}
    if rule.severity in ("critical", "high", "warning"):
        assert (rule.cost is None) == (rule.id in unpriced)


# -- advice is exact ---------------------------------------------------------------------------------------------------

CALLS = {
    "MPI_File_open": 5,
    "MPI_File_write_at_all": 6,
    "MPI_File_read_at_all": 6,
    "MPI_File_set_view": 6,
    "MPI_File_read_all": 5,
    "MPI_File_write_all": 5,
    "MPI_File_iread_at": 6,
    "MPI_File_iwrite_at_all": 6,
    "MPI_Info_set": 3,
    "MPI_Comm_split": 4,
    "MPI_Gatherv": 9,
    "MPI_Bcast": 5,
    "MPI_Wait": 2,
    "H5Pset_dxpl_mpio": 2,
    "H5Pset_chunk": 3,
    "H5Pset_chunk_cache": 4,
    "H5Pset_alignment": 3,
    "H5Pset_all_coll_metadata_ops": 2,
    "H5Pset_coll_metadata_write": 2,
    "H5Pset_meta_block_size": 2,
    "H5Pset_sieve_buf_size": 2,
    "H5Pset_fill_time": 2,
    "H5Pset_mpi_params": 3,
    "H5Pset_fapl_subfiling": 2,
    "nc_set_fill": 3,
    "ncmpi_put_vara_float_all": 5,
    "ncmpi_get_vara_float_all": 5,
    "posix_fadvise": 4,
    "setvbuf": 4,
    "pread": 4,
    "pwrite": 4,
    "write": 3,
    "aligned_alloc": 2,
    "malloc": 1,
    "fsync": 1,
    "stat": 2,
    "read_file": 1,
    "compute": (0, 1),
}
"""Arguments each call takes, from the MPI 4 and HDF5 1.14 manuals, netCDF-C, PnetCDF and POSIX."""
HINTS = {
    "romio_cb_write",
    "romio_cb_read",
    "romio_ds_write",
    "romio_ds_read",
    "romio_no_indep_rw",
    "cb_buffer_size",
    "cb_config_list",
    "cb_nodes",
    "striping_factor",
    "striping_unit",
}


def codes(*languages: str) -> list[tuple[str, str]]:
    return [
        (f"{r.id}[{n}]", a.code)
        for r in RULES.values()
        for n, a in enumerate(r.advice)
        if a.code and a.language in languages
    ]


def arguments(text: str) -> int:
    """Arguments up to the bracket that closes the call, counted at its own level."""
    depth, count, something = 0, 1, False
    for letter in text:
        if letter == ")" and depth == 0:
            return count if something else 0
        depth += (letter == "(") - (letter == ")")
        count += letter == "," and depth == 0
        something = something or not letter.isspace()
    raise AssertionError(f"not closed: {text}")


@pytest.mark.parametrize(("where", "code"), codes("c"))
def test_c_calls_exist_and_have_their_arguments(where: str, code: str) -> None:
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
    for found in re.finditer(r"\b(\w+)\(", code):
        if found[1] in ("if", "sizeof"):
            continue
        wanted = CALLS[found[1]]
        assert arguments(code[found.end() :]) in (wanted if isinstance(wanted, tuple) else (wanted,)), (
            f"{where} {found[1]}"
        )
    for hint in re.findall(r'MPI_Info_set\(info, "(\w+)"', code):
        assert hint in HINTS


@pytest.mark.parametrize(("where", "code"), codes("bash"))
def test_shell_lines_parse_and_hints_exist(where: str, code: str) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash on this machine")
    done = subprocess.run([shell, "-n"], input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{where}: {done.stderr}"
    for text in re.findall(r"printf '([^']*)' > hints.txt", code):
        lines = subprocess.run([shell, "-c", f"printf '{text}'"], capture_output=True, text=True, check=True).stdout
        assert lines.endswith("\n")
        for line in lines.splitlines():
            name, value = line.split(" ", 1)
            assert name in HINTS, f"{where}: {name}"
            assert value
    assert "ROMIO_HINTS=" not in code or "ROMIO_HINTS=$PWD/" in code, "ROMIO reads the file from every process's folder"


@pytest.mark.parametrize(("where", "code"), [c for c in codes("bash") if "lfs setstripe" in c[1]])
def test_stripes_are_what_lustre_takes(where: str, code: str) -> None:
    for line in re.findall(r"lfs setstripe ([^#\n]*)", code):
        words = line.split()
        assert words[-1] == "DIRECTORY", where
        options = words[:-1]
        assert len(options) % 2 == 0
        for name, value in zip(options[::2], options[1::2], strict=True):
            assert re.fullmatch(
                {"-c": r"-1|\d+", "-S": r"\d+[KMG]", "-E": r"-1|\d+[KMG]", "-L": "mdt", "-o": r"\d+(,\d+)*"}[name],
                value,
            ), f"{where}: {name} {value}"


@pytest.mark.parametrize(("where", "code"), codes("python"))
def test_python_lines_compile(where: str, code: str) -> None:
    compile(code, where, "exec")


# -- coverage ----------------------------------------------------------------------------------------------------------

DRISHTI = [
    "S01",
    *(f"P{n:02}" for n in (*range(1, 20), 21, 22)),
    *(f"M{n:02}" for n in range(1, 11)),
]


@pytest.mark.parametrize("trigger", DRISHTI)
def test_every_drishti_trigger_has_its_rule(trigger: str) -> None:
    assert len([r.id for r in RULES.values() if f"Drishti {trigger}" in r.references]) == 1


@pytest.mark.parametrize(
    ("rule", "advice"),
    [
        ("shared_file_n1", "one I/O process in every 16 to 32"),
        ("too_many_writers", "one I/O process in every 16 to 32"),
        ("read_ahead_thrash", "max_read_ahead_per_file_mb=2"),
        ("hdf5_small", "chunks of 1 MiB"),
        ("high_metadata_rate", "P:(1-P)"),
    ],
)
def test_beacons_advice_is_given(rule: str, advice: str) -> None:
    assert any("Beacon" in reference for reference in RULES[rule].references)
    assert any(advice in f"{one.text} {one.code}" for one in RULES[rule].advice)


def test_beacons_limit_of_the_metadata_rate() -> None:
    condition = compile_condition(RULES["high_metadata_rate"].when)
    assert condition.holds({"metadata_ops": 10_000, "metadata_ops_per_s": 301.0}) is True
    assert condition.holds({"metadata_ops": 10_000, "metadata_ops_per_s": 299.0}) is False


def test_file_columns_are_those_of_the_table() -> None:
    assert set(build_file_table(job([counters()])).columns) == set(FILE_COLUMNS)


def test_every_rule_has_its_page_and_no_page_lacks_its_rule() -> None:
    folder = Path(__file__).resolve().parents[3] / "docs" / "reference" / "rules"
    assert {page.stem for page in folder.glob("*.md")} == {"index", *RULES}


# -- one fault, one finding --------------------------------------------------------------------------------------------


def test_no_rule_covers_itself() -> None:
    for name in RULES:
        assert name not in find_covered_rules(RULES, name)


def test_what_is_covered_belongs_to_the_same_kind_of_cost() -> None:
    """A finding may stand for another only if mending it mends both."""
    kinds = [
        {"small_writes", "small_reads", "small_requests", "shared_file_writes", "imbalance", "serial"},
        {"metadata", "long_metadata"},
        {"imbalance", "serial", "shared_file_writes", "small_writes"},
        {"sieved_reads", "small_reads", "random_reads", "repeated_reads", "modify_reads", "imbalance"},
    ]
    for rule in RULES.values():
        for other in rule.covers:
            pair = {rule.cost, RULES[other.rule].cost} - {None}
            assert any(pair <= kind for kind in kinds), f"{rule.id} → {other.rule}"


def found_in(
    rows: list[dict[str, object]], rules: dict[str, Rule] | None = None, **values: object
) -> dict[str, Finding]:
    findings, _ = evaluate_rules(rules or RULES, build_profile(job(rows, **values)))  # type: ignore[arg-type]
    return {one.rule: one for one in findings}


def small_shared(mpiio: bool = False) -> list[dict[str, object]]:
    row = counters(
        1,
        SHARED,
        bytes_written=GIB,
        writes=262_144,
        write_time_s=160.0,
        slowest_rank_time_s=10.0,
        write_sizes=sizes(small=262_144),
        opens=16,
        access_sizes=[4096, 0, 0, 0],
        access_counts=[262_144, 0, 0, 0],
    )
    above = counters(1, SHARED, "MPI-IO", bytes_written=GIB, indep_writes=262_144, write_sizes=sizes(small=262_144))
    return [row, above] if mpiio else [row]


def test_small_shared_writes_are_told_once() -> None:
    found = found_in(small_shared(), processes=8)
    assert "small_writes" not in found
    assert "no_mpiio" not in found
    one = found["shared_small_writes"]
    assert set(one.covers) == {"small_writes", "no_mpiio"}
    assert "also: 100 % of the writes are at most 1 MiB" in [e.text for e in one.evidence]
    assert one.evidence[0].files == ["/scratch/f1"]
    assert one.severity == "high"
    assert one.cost_s == pytest.approx(20 - 1 / 8, rel=0.01)


def test_independent_calls_are_the_reason_where_there_are_any() -> None:
    found = found_in(small_shared(mpiio=True), processes=16)
    assert "shared_small_writes" not in found
    assert set(found["independent_writes"].covers) >= {"shared_small_writes", "small_writes"}


def test_small_writes_elsewhere_are_not_covered_by_a_few_shared_ones() -> None:
    rows = [
        counters(1, SHARED, bytes_written=2000 << 12, writes=2000, write_time_s=1.0, write_sizes=sizes(small=2000)),
        *(
            counters(
                r + 2, r, bytes_written=50_000 << 12, writes=50_000, write_time_s=9.0, write_sizes=sizes(small=50_000)
            )
            for r in range(4)
        ),
    ]
    assert {"small_writes", "shared_small_writes"} <= set(found_in(rows))


def test_a_finding_without_a_price_takes_the_dearest_it_covers() -> None:
    text = """
    id = "mine"
    title = "Mine"
    category = "library"
    severity = "info"
    when = "write_ops > 0"
    about = "x."
    evidence = [{ text = "x" }]
    covers = [{ rule = "shared_small_writes" }]
    examples = { fires = { write_ops = 1 }, quiet = { write_ops = 0 } }
    """
    found = found_in(small_shared(), RULES | {"mine": decode_rule(text, "mine.toml")}, processes=8)["mine"]
    assert (found.severity, found.covers) == ("high", ["shared_small_writes", "small_writes", "no_mpiio"])
    assert found.cost_s == pytest.approx(20 - 1 / 8, rel=0.01)
    assert "1 MiB" in str(found.cost_basis)


def test_one_aggregator_is_blamed_instead_of_the_ranks() -> None:
    rows = [
        counters(
            1,
            SHARED,
            bytes_written=40 * GIB,
            writes=40 << 10,
            write_time_s=640.0,
            slowest_rank_time_s=600.0,
            fastest_rank_time_s=0.0,
            slowest_rank_bytes=40 * GIB,
            fastest_rank_bytes=0,
            slowest_rank=0,
            write_sizes=sizes(small=40 << 10),
        ),
        counters(1, SHARED, "MPI-IO", bytes_written=40 * GIB, coll_writes=100_000, write_sizes=sizes(small=100_000)),
    ]
    layouts = [{"file_id": 1, "component": 0, "stripe_count": 1, "stripe_size": 1 << 20, "targets": [3]}]
    found = found_in(rows, processes=512, run_time_s=1500.0, layouts=layouts)
    one = found["one_aggregator"]
    assert "data_stragglers" in one.covers
    assert not {"data_stragglers", "one_stripe", "small_writes", "shared_small_writes"} & set(found)
    striped = [layouts[0] | {"stripe_count": 2, "targets": [3, 4]}]
    assert "data_stragglers" in found_in(rows, processes=512, run_time_s=1500.0, layouts=striped)


def badly_served(slow: float) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """48 ranks, a file each, on 12 targets; those of target 5 are written `slow` times slower."""
    rows, layouts = [], []
    for rank in range(48):
        target = rank % 12
        rows.append(
            counters(
                rank + 1,
                rank,
                bytes_written=GIB,
                writes=256,
                write_sizes=sizes(large=256),
                write_time_s=10.0 * (slow if target == 5 else 1.0),
            )
        )
        layouts.append(
            {"file_id": rank + 1, "component": 0, "stripe_count": 1, "stripe_size": 1 << 20, "targets": [target]}
        )
    return rows, layouts


def test_a_slow_target_is_named() -> None:
    rows, layouts = badly_served(20.0)
    found = found_in(rows, processes=48, run_time_s=400.0, layouts=layouts)
    assert found["slow_target"].title == "Storage target 5 serves this job at 5.0 % of the others' rate"
    assert "slow_ranks" in found["slow_target"].covers
    assert found["slow_target"].evidence[0].ranks == [5, 17, 29, 41]


def test_evenly_slow_targets_are_not() -> None:
    rows, layouts = badly_served(1.5)
    assert "slow_target" not in found_in(rows, processes=48, run_time_s=400.0, layouts=layouts)
    rows, layouts = badly_served(20.0)
    striped = [one | {"stripe_count": 2, "targets": [*one["targets"], 99]} for one in layouts]  # type: ignore[misc]
    found = found_in(rows, processes=48, run_time_s=400.0, layouts=striped)
    assert "slow_target" not in found
    assert found["slow_ranks"].severity == "high"


# -- severity follows cost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at_most_s", "run_time_s", "severity"),
    [
        (10.0, 100.0, "high"),
        (5.0, 100.0, "high"),
        (4.9, 100.0, "warning"),
        (0.1, 100.0, "warning"),
        (0.099, 100.0, "info"),
        (0.0, 100.0, "info"),
        (0.0, None, "info"),
        (0.09, 0.1, "warning"),
        (0.11, 0.2, "high"),
        (None, 100.0, "high"),
        (50.0, None, "high"),
        (0.05, None, "warning"),
    ],
)
def test_what_costs_little_is_no_high_finding(at_most_s: float | None, run_time_s: float | None, severity: str) -> None:
    assert cap_rule_severity("high", at_most_s, run_time_s) == severity
    assert cap_rule_severity("ok", at_most_s, run_time_s) == "ok"


def test_a_job_of_milliseconds_has_no_high_findings() -> None:
    rows = [counters(1, SHARED, bytes_written=4 << 20, writes=8192, write_time_s=0.016, write_sizes=sizes(small=8192))]
    found = found_in(rows, run_time_s=0.02)
    assert "shared_small_writes" in found
    assert all(SEVERITIES.index(one.severity) >= SEVERITIES.index("warning") for one in found.values())


def test_a_burden_on_others_is_not_lowered() -> None:
    rows = [
        counters(
            f + 1,
            f % 4,
            opens=100,
            stats=100,
            meta_time_s=0.001,
            open_start_ns=0,
            close_end_ns=10**9,
            bytes_read=5,
            reads=1,
        )
        for f in range(1000)
    ]
    found = found_in(rows, run_time_s=10_000.0)
    assert found["high_metadata_rate"].severity == "high"
    assert found["high_metadata_rate"].cost_s < 1.0  # type: ignore[operator]


def test_no_cause_costs_more_than_the_run_though_threads_wait_side_by_side() -> None:
    rows = [
        counters(
            f + 1, 0, opens=100, stats=100, meta_time_s=0.1, open_start_ns=0, close_end_ns=10**9, bytes_read=5, reads=1
        )
        for f in range(1000)
    ]
    found = found_in(rows, run_time_s=10.0)
    assert found["high_metadata_rate"].cost_s == 10.0


def test_findings_are_ordered_by_cost_and_good_news_comes_last() -> None:
    found = list(found_in(small_shared(), processes=16).values())
    bad = [f for f in found if f.severity not in ("ok", "info")]
    assert bad == found[: len(bad)]
    costs = [f.cost_s or 0.0 for f in bad]
    assert costs == sorted(costs, reverse=True)


def test_undecided_rules_do_not_fire_and_name_what_they_lack() -> None:
    rows = [small_shared()[0] | {"bytes_written": 2 * GIB}]
    findings, undecided = evaluate_rules(RULES, build_profile(job(rows, processes=16)))
    lacking = {one.rule: one.unknown for one in undecided}
    assert "striping" not in {f.category for f in findings}
    assert lacking["one_stripe"] == ["shared_file_stripes"]
    assert not set(lacking) & {f.rule for f in findings}
    assert all(names for names in lacking.values())


def test_an_empty_job_has_no_findings_and_little_undecided() -> None:
    findings, undecided = evaluate_rules(RULES, build_profile(job([])))
    assert findings == []
    assert len(undecided) <= 12, [one.rule for one in undecided]


# -- shown -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("write_small_share", 1.0, "100 %"),
        ("write_small_share", 0.9973, "over 99 %"),
        ("write_small_share", 0.0, "0 %"),
        ("write_small_share", 0.021, "2.1 %"),
        ("write_bytes", 3 << 20, "3 MiB"),
        ("processes", 65_536, "65,536"),
        ("write_ops", 65_536, "65.5 k"),
        ("run_time_s", 125.0, "2 min 05 s"),
        ("metadata_ops_per_s", 4800.0, "4,800/s"),
        ("mpiio_used", True, "yes"),
        ("write_mode", "N-1", "N-1"),
        ("write_bytes", None, "unknown"),
        ("cost_metadata_s", 0.5, "500 ms"),
        ("slowest_target", 14, "14"),
    ],
)
def test_values_are_shown_in_their_units(name: str, value: object, text: str) -> None:
    assert format_rule_metric(name, value) == text  # type: ignore[arg-type]


def test_words_follow_the_number() -> None:
    text = "{straggler_ranks:process takes|processes take} long"
    assert list_rule_placeholders(text) == ["straggler_ranks"]
    assert fill_rule_placeholders(text, {"straggler_ranks": 1}) == "1 process takes long"
    assert fill_rule_placeholders(text, {"straggler_ranks": 2}) == "2 processes take long"
    assert described.format_rule_template(text) == "n processes take long"


def test_titles_start_with_a_capital() -> None:
    found = found_in(
        [
            counters(
                1,
                SHARED,
                bytes_written=GIB,
                writes=262_145,
                write_time_s=16.0,
                write_sizes=sizes(small=262_000, large=145),
            )
        ]
    )
    assert found["shared_small_writes"].title.startswith("Over 99 % of the writes")


def test_every_metric_has_a_known_unit_and_words() -> None:
    for name, unit, meaning in described.list_rule_metrics():
        assert name in NAMES
        assert unit in ("bytes", "bytes/s", "count", "share", "s", "rank", "1/s", "ratio", "word", "bool")
        assert meaning
        assert format_rule_metric(name, 1 if unit not in ("word",) else "x")
    assert set(NAMES) == {name for name, _, _ in described.list_rule_metrics()}
    assert set(METRICS) < set(NAMES)
