"""The parts of heavy work without a lake or a cluster: cuts, settings, who works, what is worth writing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.errors import ConfigError, InputError, MissingDependencyError, UsageError
from fairlead.core.model.tables import JOB_SUMMARY
from fairlead.explain.analysis.job_summary import SERIES
from fairlead.explain.batch import population as pop
from fairlead.explain.batch.reanalysis import is_less_complete_summary, name_reanalysis_stream
from fairlead.explain.batch.settings import Slurm, load_batch_settings
from fairlead.explain.batch.span_pieces import split_span_into_pieces
from fairlead.explain.batch.workers import LocalWorkers, create_slurm_workers, run_on_worker, start_workers
from fairlead.explain.questions.span import HOUR_NS, Span

MOMENT = st.integers(0, 60 * HOUR_NS)


@given(low=MOMENT, length=st.integers(0, 60 * HOUR_NS), step=st.sampled_from([HOUR_NS, 24 * HOUR_NS]))
def test_pieces_are_the_span(low: int, length: int, step: int) -> None:
    found = split_span_into_pieces(Span(low, low + length), step)
    assert sum(piece.length_ns for piece in found) == length
    bounds = [piece.from_ns for piece in found] + [found[-1].to_ns if found else low]
    assert bounds == sorted(set(bounds))
    assert all(bound % step == 0 for bound in bounds[1:-1])


def test_whole_pieces_of_two_spans_have_one_name() -> None:
    wide = {name_reanalysis_stream("x", piece) for piece in split_span_into_pieces(Span(0, 10 * HOUR_NS), HOUR_NS)}
    narrow = {
        name_reanalysis_stream("x", piece) for piece in split_span_into_pieces(Span(HOUR_NS // 2, 3 * HOUR_NS), HOUR_NS)
    }
    assert len(narrow - wide) == 1
    assert not wide & {
        name_reanalysis_stream("y", piece) for piece in split_span_into_pieces(Span(0, 10 * HOUR_NS), HOUR_NS)
    }


def test_nobody_works_at_a_wrong_address() -> None:
    with pytest.raises(UsageError, match="not a place to run"), start_workers("localhost:8786"):
        pass


@pytest.mark.parametrize(("where", "lacking"), [("processes", "distributed"), ("slurm", "dask_jobqueue")])
def test_what_is_not_installed_is_named(where: str, lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, lacking, None)
    with pytest.raises(MissingDependencyError) as told, start_workers(where):
        pass
    assert lacking in told.value.what
    assert told.value.remedy == "pip install 'fairlead[heavy]'"


def test_a_worker_of_another_version_refuses() -> None:
    with pytest.raises(UsageError, match=r"has fairlead .*, not 0\.0\.1"):
        run_on_worker("0.0.1", len, "abc", {})


def test_this_process_works_in_order() -> None:
    assert list(LocalWorkers().run_each(lambda piece, plus: piece + plus, [3, 1, 2], plus=10)) == [
        (3, 13),
        (1, 11),
        (2, 12),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slurm]\nqueu = 'x'\n", "queu"),
        ("[slurm]\ncores = '4'\n", "cores"),
        ("[slurm]\njobs = 0\n", "slurm.jobs"),
        ("[slurm]\ncores = 2\nprocesses = 3\n", "slurm.processes"),
        ("[slurm", "TOML"),
    ],
)
def test_a_wrong_setting_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "heavy.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_batch_settings(file)
    with pytest.raises(InputError):
        load_batch_settings(tmp_path / "none.toml")


def test_slurm_is_asked_for_what_the_settings_say(tmp_path: Path) -> None:
    file = tmp_path / "heavy.toml"
    file.write_text(
        '[slurm]\nqueue = "short"\naccount = "storage"\ncores = 8\nprocesses = 2\nmemory = "16GB"\n'
        'walltime = "00:30:00"\ndirectives = ["--exclusive"]\nprologue = ["module load python"]\n'
        'python = "/opt/fairlead/bin/python"\ninterface = "lo"\nlogs = "/var/log/x"\n'
    )
    with create_slurm_workers(load_batch_settings(file).slurm) as cluster:
        script = cluster.job_script().splitlines()
    for line in (
        "#SBATCH -p short",
        "#SBATCH -A storage",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=15G",
        "#SBATCH -t 00:30:00",
        "#SBATCH --exclusive",
        "module load python",
    ):
        assert line in script
    [command] = [line for line in script if "dask_worker" in line]
    assert command.startswith("/opt/fairlead/bin/python -m distributed.cli.dask_worker tcp://127.0.0.1:")
    assert "--nworkers 2" in command
    assert "--no-dashboard" in command


def test_tls_is_the_default() -> None:
    assert Slurm().tls


def _row(**changes: Any) -> dict[str, Any]:
    row = dict.fromkeys(JOB_SUMMARY.schema.names) | dict.fromkeys(SERIES, 100)
    return row | {"job_id": "1", "basis": "client", "write_mode": "N-N", "made_ns": 5, "analysis_version": 1} | changes


@pytest.mark.parametrize(
    ("changes", "less"),
    [
        ({}, False),
        ({"write_bytes": 101, "files": 3}, False),
        ({"write_bytes": 99}, True),
        ({"write_mode": None}, True),
        ({"basis": None}, True),
        ({"basis": "job_stats", "write_bytes": 99}, False),
        ({"estimated": None, "made_ns": 4}, False),
    ],
)
def test_a_summary_that_tells_less_is_not_written(changes: dict[str, Any], less: bool) -> None:
    assert is_less_complete_summary(_row(**changes), _row(estimated=["files"])) is less
    assert not is_less_complete_summary(_row(**changes), None)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, unique_by=lambda pair: pair[0]))
def test_quantiles_are_edges_that_hold_their_share(bins: list[tuple[int, int]]) -> None:
    bins.sort()
    values = np.repeat([k for k, _ in bins], [n for _, n in bins])
    found = pop._quantiles(np.array([n for _, n in bins]), [float(k) for k, _ in bins])
    for share in pop.QUANTILES:
        assert found[f"{share:g}"] == np.quantile(values, share, method="inverted_cdf")


def test_sums_of_unknowns_stay_unknown() -> None:
    parts = [
        pa.table({"day": [1], "moved": pa.array([None], pa.int64())}),
        pa.table({"day": [1, 2], "moved": pa.array([None, 2**62], pa.int64())}),
    ]
    found = pop._added(parts, ("day",), sums=("moved",))
    assert sorted(found.to_pylist(), key=lambda row: row["day"]) == [
        {"day": 1, "moved": None},
        {"day": 2, "moved": 2**62},
    ]
