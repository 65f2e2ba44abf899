"""Counts and bytes recorded at client, forwarder and target agree with each other and with the program's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import TABLES
from fairlead.see.sources.spool import SpoolSource
from fairlead.steer.forwarding.mount.process.control import ask_mount_process
from mounting import environment, fairlead, forwarded_mount, local_mount, open_folder
from waiting import PATIENCE_S

pytestmark = pytest.mark.fuse

PROGRAM = """
import collections, json, mmap, os, sys
folder, counts = sys.argv[1], collections.Counter()
buffer = mmap.mmap(-1, 1 << 20)      # whole pages: a request is not split
buffer[:] = os.urandom(1 << 20)
view = memoryview(buffer)

def write(fd, size, offset):
    done = os.pwrite(fd, view[:size], offset)
    counts["write"] += 1
    counts["bytes_written"] += done

def read(fd, size, offset):
    done = os.preadv(fd, [view[:size]], offset)
    counts["read"] += 1
    counts["bytes_read"] += done

os.mkdir(f"{folder}/d")
counts["mkdir"] += 1
sizes = [4096, 1 << 20, 65536, 8192]
for number in range(8):
    fd = os.open(f"{folder}/d/f{number}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    counts["create"] += 1
    for k in range(20):
        size = sizes[(number + k) % 4]
        write(fd, size, k * (1 << 20))
    write(fd, 1000, 21 << 20)        # the last, short piece
    os.fsync(fd)
    counts["fsync"] += 1
    for k in (k * 7 % 20 for k in range(20)):      # what was written: a hole is read from no target
        read(fd, sizes[(number + k) % 4], k << 20)
    read(fd, 4096, 21 << 20)         # short at the end of the file
    read(fd, 4096, 22 << 20)         # behind it: nothing
    os.close(fd)
    counts["close"] += 1
for number in range(4):
    os.rename(f"{folder}/d/f{number}", f"{folder}/d/g{number}")
    counts["rename"] += 1
for number in range(4, 8):
    os.unlink(f"{folder}/d/f{number}")
    counts["unlink"] += 1
try:
    os.mkdir(f"{folder}/d")          # refused by the kernel or by the tree: either way it makes nothing
except FileExistsError:
    pass
os.symlink("g0", f"{folder}/d/link")
counts["symlink"] += 1
os.truncate(f"{folder}/d/g1", 12345)
counts["truncate"] += 1
print(json.dumps(counts))
"""
DATA = ("read", "write")
COUNTED = ("create", "close", "fsync", "rename", "unlink", "mkdir", "symlink")
MEASURES = ("read", "write", "bytes_read", "bytes_written")


def _run(program: str, folder: Path, runtime: Path, job: str, *arguments: str) -> Counter[str]:
    """What a program of one job counted itself."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), *arguments],
        env={**environment(runtime), "FAIRLEAD_JOB_ID": job, "FAIRLEAD_RANK": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return Counter(json.loads(done.stdout))


def tables(spool: Path) -> dict[str, pa.Table]:
    """Everything a spool holds, by table."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for path in sorted(spool.glob("*.batch")):
        for item in SpoolSource().read(path):
            assert not isinstance(item, Missing), item
            if isinstance(item, pa.RecordBatch):
                found[item.schema.metadata[b"fairlead.table"].decode()].append(item)
    return {name: pa.Table.from_batches(batches, TABLES[name].schema) for name, batches in found.items()}


def _sum(table: pa.Table, column: str) -> int:
    return int(pc.sum(table[column]).as_py() or 0)


def client_counts(found: dict[str, pa.Table], job: str) -> Counter[str]:
    """Operations by word, and bytes, as the mount recorded them."""
    counts: Counter[str] = Counter()
    for row in found["ops"].select(["job_id", "op", "size", "count"]).to_pylist():
        if row["job_id"] == job:
            counts[row["op"]] += row["count"]
            if row["op"] in DATA:
                counts[f"bytes_{'read' if row['op'] == 'read' else 'written'}"] += row["size"] * row["count"]
    return counts


def forwarder_counts(found: dict[str, pa.Table], job: str) -> Counter[str]:
    """The same as the forwarder recorded them."""
    counts: Counter[str] = Counter()
    for row in found["forwarder"].to_pylist():
        if row["job_id"] == job and row["op_class"] in DATA:
            counts[row["op_class"]] += row["requests"]
            counts[f"bytes_{'read' if row['op_class'] == 'read' else 'written'}"] += row["bytes"]
            assert sum(row["wait_ns_histogram"]) == sum(row["service_ns_histogram"]) == row["requests"]
    for row in found["metadata"].to_pylist():
        if row["job_id"] == job:
            counts[row["op"]] += row["count"]
    return counts


def _target_counts(found: dict[str, pa.Table], job: str, table: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    rows = found[table].filter(pc.equal(found[table]["job_id"].cast(pa.string()), job))
    for measure, column in zip(MEASURES, ("read_rpcs", "write_rpcs", "read_bytes", "write_bytes"), strict=True):
        counts[measure] = _sum(rows, column)
    return counts


def _targets_file(folder: Path) -> str:
    lines = ["[metadata]", f'store = "{folder / "meta"}"', "[layout]", "stripe_count = 2"]
    for number in range(3):
        (folder / f"t{number}").mkdir()
        lines += ["[[targets]]", f'name = "t{number}"', f'path = "{folder / f"t{number}"}"']
    (folder / "targets.toml").write_text("\n".join(lines) + "\n")
    return f"targets:{folder / 'targets.toml'}"


@pytest.mark.parametrize("kind", ["directory", "targets"])
def test_all_layers_count_what_the_program_counts(kind: str) -> None:
    with open_folder() as place:
        export, folder, state, spool = (place / name for name in ("export", "mnt", "state", "spool"))
        for one in (export, folder, state):
            one.mkdir()
        source = str(export) if kind == "directory" else _targets_file(export)
        with forwarded_mount(
            source, folder, "--spool", spool, state=state, forwarder_options=("--spool", spool)
        ) as mount:
            own = _run(PROGRAM, folder, mount.runtime, "4711")
        found = tables(spool)
    client, forwarder = client_counts(found, "4711"), forwarder_counts(found, "4711")
    for name in (*MEASURES, *COUNTED):
        assert client[name] == own[name], name
        assert forwarder[name] == own[name], name
    assert client["truncate"] == own["truncate"]
    for word in {*client, *forwarder} - {"truncate", "chmod", "chown", "utimens", "setattr", "fsync", "fdatasync"}:
        assert client[word] == forwarder[word], word
    for name in ("bytes_read", "bytes_written"):
        assert _target_counts(found, "4711", "target")[name] == own[name]
    if kind == "directory":
        for table in ("target", "pfs_client"):
            assert _target_counts(found, "4711", table) == Counter({name: own[name] for name in MEASURES})
    paths = found["files"]["path"].to_pylist()
    assert {f"{folder}/d/f{number}" for number in range(8)} <= set(paths)
    assert not found["events"].num_rows
    ends = [row for row in found["mapping"].to_pylist() if row["kind"] == "node_forwarder"]
    assert any(row["to_ns"] is not None for row in ends)


STATS = """
import json, os, sys
folder = sys.argv[1]
names = sorted(os.listdir(folder + "/many"))
for name in names:
    os.stat(f"{folder}/many/{name}")
print(json.dumps({"names": len(names)}))
"""


def test_stat_of_files_never_seen_is_one_look_up_each() -> None:
    with open_folder() as place:
        export, folder, state, spool = (place / name for name in ("export", "mnt", "state", "spool"))
        for one in (export, folder, state):
            one.mkdir()
        (export / "many").mkdir()
        with forwarded_mount(
            export, folder, "--spool", spool, state=state, forwarder_options=("--spool", spool)
        ) as mount:
            for number in range(300):
                (export / "many" / f"n{number}").touch()
            program = STATS.replace('sorted(os.listdir(folder + "/many"))', '[f"n{k}" for k in range(300)]')
            own = _run(program, folder, mount.runtime, "8")
        found = tables(spool)
    client, forwarder = client_counts(found, "8"), forwarder_counts(found, "8")
    assert own["names"] == 300
    below = {row["file_id"] for row in found["files"].to_pylist() if row["path"].startswith(f"{folder}/many/")}
    looked_up = sum(
        row["count"] for row in found["ops"].to_pylist() if row["op"] == "lookup" and row["file_id"] in below
    )
    assert looked_up == 300
    assert client["lookup"] == forwarder["lookup"]
    assert client["stat"] == forwarder["stat"]


def test_recording_is_switched_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_folder() as place:
        export, folder, state, spool = (place / name for name in ("export", "mnt", "state", "spool"))
        for one in (export, folder, state):
            one.mkdir()
        with forwarded_mount(
            export, folder, "--spool", spool, state=state, forwarder_options=("--spool", spool)
        ) as mount:
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(mount.runtime))
            mount.forwarders[0].process.send_signal(signal.SIGUSR2)
            assert ask_mount_process(folder, {"do": "record", "on": False}) == {"on": False}
            (folder / "silent").write_bytes(bytes(1000))
            assert ask_mount_process(folder, {"do": "record", "on": True}) == {"on": True}
            (folder / "silent").write_bytes(bytes(500))  # its name was learnt meanwhile
            (folder / "told").write_bytes(bytes(3000))
        found = tables(spool)
    paths = {row["file_id"]: row["path"] for row in found["files"].to_pylist()}
    written = {paths[row["file_id"]]: row["size"] for row in found["ops"].to_pylist() if row["op"] == "write"}
    assert written == {f"{folder}/silent": 500, f"{folder}/told": 3000}


def test_a_local_mount_records_and_is_reported(tmp_path: Path) -> None:
    with open_folder() as place:
        source, folder, state, spool = (place / name for name in ("source", "mnt", "state", "spool"))
        for one in (source, folder, state):
            one.mkdir()
        with local_mount(source, folder, "--passthrough", "off", "--spool", spool, state=state) as mount:
            own = _run(PROGRAM, folder, mount.runtime, "12")
        client = client_counts(tables(spool), "12")
        told = fairlead("report", spool, "--json", tmp_path / "report.json", runtime=mount.runtime)
        assert told.returncode == 0, told.stderr
    for name in (*MEASURES, *COUNTED):
        assert client[name] == own[name], name
    report = json.loads((tmp_path / "report.json").read_text())
    report = next(one for one in report.get("reports", [report]) if one["job"]["id"] == "12")
    assert report["metrics"]["write_bytes"] == own["bytes_written"]
    assert report["metrics"]["read_bytes"] == own["bytes_read"]
