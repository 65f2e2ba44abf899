"""Every source keeps the contract of sources: those fairlead comes with, and the example of a site's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dftracer_writing import event, text
from fairlead.core.batches.encoding import Header, Numbers, Words, encode_batch
from fairlead.core.model.tables import TABLES
from fairlead.kit.testing.source_contract import Sample, SourceContract
from fairlead.see.sources.base import Source
from fairlead.see.sources.registered_sources import SOURCES, load_registered_source
from installed_plugins import install_example, on_path

ROOT = Path(__file__).resolve().parents[3]
NOW_NS = 1_760_000_000 * 10**9


def _write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class _BuiltIn(SourceContract):
    name = ""

    @pytest.fixture
    def source(self) -> Source:
        return load_registered_source(self.name)


class TestDarshan(_BuiltIn):
    name = "darshan"

    @pytest.fixture
    def samples(self) -> list[Sample]:
        logs = ROOT / "examples" / "logs"
        return [Sample(logs / "small_512b_nn_4.darshan"), Sample(logs / "md_heavy_8.darshan")]


class TestDftracer(_BuiltIn):
    name = "dftracer"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        events = [event("write", 1000 + 10 * n, fname="/scratch/a", ret=512, size_sum=512) for n in range(200)]
        return [Sample(_write(tmp_path / "trace.pfw", text(events)))]


class TestSpool(_BuiltIn):
    name = "spool"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        return [Sample(_write(tmp_path / "1.spool", b"".join(_batch(seq) for seq in (1, 2, 3))), {"events": 9})]


def _batch(seq: int) -> bytes:
    from array import array

    header = Header(
        table="events",
        version=TABLES["events"].version,
        node="n1",
        boot_id="b" * 32,
        seq=seq,
        rows=3,
        writer="agent",
        first_ns=NOW_NS,
        last_ns=NOW_NS + 2,
    )
    columns = {
        "ts_ns": Numbers(array("q", [NOW_NS, NOW_NS + 1, NOW_NS + 2])),
        "component": Words(array("i", [0, 0, 1]), ["n1", "n2"]),
        "kind": Words(array("i", [0, 0, 0]), ["boot"]),
        "text": Words(array("i", [0, 1, 0]), ["up", "down"]),
    }
    return bytes(encode_batch(header, columns))


class TestSlurm(_BuiltIn):
    name = "slurm"

    @pytest.fixture(params=["sacct_P.txt", "scontrol_show_job.txt", "squeue.json", "jobcomp_filetxt.txt"])
    def samples(self, request: pytest.FixtureRequest, fixtures: Path) -> list[Sample]:
        return [Sample(fixtures / "slurm" / request.param)]


class TestBeacon(_BuiltIn):
    name = "beacon"

    @pytest.fixture
    def samples(self, fixtures: Path) -> list[Sample]:
        return [Sample(fixtures / "beacon" / name) for name in ("mixed.log", "jobs.log")]


class TestLfs(_BuiltIn):
    name = "lfs"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        lines = [f"fs-OST{n:04x}_UUID 1000 {n} {1000 - n} 1% /fs[OST:{n}]" for n in range(40)]
        head = "BEGIN 1760000000\nUUID 1K-blocks Used Available Use% Mounted on\n"
        return [Sample(_write(tmp_path / "df.txt", head + "\n".join(lines) + "\n"), {"target": 40})]


class TestCounters(_BuiltIn):
    name = "counters"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        parts = [
            f"health_check=healthy\nobdfilter.fs-OST0000.kbytestotal=1000\nobdfilter.fs-OST0000.kbytesfree=400\n"
            f"obdfilter.fs-OST0000.stats=\nsnapshot_time             {at}.000000000 secs.nsecs\n"
            f"write_bytes               {at - 1_716_289_000} samples [bytes] 1 1 {100 * (at - 1_716_289_000)}\n"
            for at in range(1_716_290_000, 1_716_290_050, 10)
        ]
        return [Sample(_write(tmp_path / "dump.txt", "".join(parts)))]


class TestCollectd(_BuiltIn):
    name = "collectd"

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        hits = [
            {
                "_source": {
                    "plugin": "disk",
                    "collectd_type": kind,
                    "hostname": "bb1",
                    "plugin_instance": "nvme0n1",
                    "@timestamp": f"2018-01-28T00:00:{second:02d}.000Z",
                    "read": 100.0,
                    "write": 50.0,
                }
            }
            for second in range(0, 50, 10)
            for kind in ("disk_octets", "disk_ops")
        ]
        return [Sample(_write(tmp_path / "hits.json", json.dumps(hits)))]


class _Archive(_BuiltIn):
    files: tuple[str, ...] = ()

    @pytest.fixture
    def samples(self, shared_data: Path, tmp_path: Path) -> list[Sample]:
        return [Sample(Path(shutil.copy(shared_data / "pytokio" / name, tmp_path))) for name in self.files]


@pytest.mark.shared_data
class TestLmt(_Archive):
    name = "lmt"
    files = ("lmtdb-reset.sqlite3",)


@pytest.mark.shared_data
class TestJobsDb(_Archive):
    name = "jobsdb"
    files = ("sample_nersc_jobsdb.sqlite3",)


@pytest.mark.shared_data
class TestTokio(_Archive):
    name = "tokio"
    files = ("sample_tokiots.hdf5",)


@pytest.mark.shared_data
class TestGpfs(_Archive):
    name = "gpfs"
    files = ("mmperfmon-usage.txt.gz", "mmperfmon-nsdds.txt.gz")


class TestSiteExample(SourceContract):
    """The example of `docs/howto/write-a-plug-in.md`."""

    @pytest.fixture
    def source(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
        folder = tmp_path_factory.mktemp("site")
        install_example(folder, "source")
        with on_path(folder):
            yield load_registered_source("scratch")

    @pytest.fixture
    def samples(self, tmp_path: Path) -> list[Sample]:
        lines = "".join(f"{1_760_000_000 + n} fs-OST{n:04x} 1000 {n}\n" for n in range(50))
        return [Sample(_write(tmp_path / "scratch.txt", "# scratch 1\n" + lines), {"target": 50})]


def test_every_built_in_source_is_held_to_the_contract() -> None:
    kinds: list[type[SourceContract]] = [kind for kind in globals().values() if _is_contract(kind)]
    assert {kind.name for kind in kinds if issubclass(kind, _BuiltIn)} - {""} == set(SOURCES)


def _is_contract(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, SourceContract)
