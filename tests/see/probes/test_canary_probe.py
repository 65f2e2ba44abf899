"""Canaries on real folders: what they write, measure, refuse and leave behind; folders that hang."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.core.batches.decoding import decode_stream_batches
from fairlead.core.batches.encoding import Header
from fairlead.core.batches.rows import build_batch_rows as arrow_rows
from fairlead.core.model.tables import PART_SOURCES
from fairlead.see.agent import probe_names
from fairlead.see.agent.deltas import Deltas
from fairlead.see.agent.row_buffers import Sheets
from fairlead.see.agent.settings import SettingError, parse_agent_settings
from fairlead.see.probes import canary
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.canary import (
    MARKER,
    Canary,
    Place,
    clear_canary_leftover,
    open_canary_folder,
    parse_canary_places,
    parse_canary_size,
)
from fairlead.store.rollups import derive_rollups
from waiting import PATIENCE_S


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "canaries"
    made.mkdir(mode=0o700)
    (made / MARKER).touch()
    return made


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_it_is_off_unless_asked_for_and_says_what_it_lacks(tmp_path: Path) -> None:
    assert "canary" not in probe_names.expand_probe_names(["auto"])
    ((_, probe),) = probe_names.make_named_probes(["canary"], str(tmp_path), "n1", ())
    with pytest.raises(AbsentError, match="no folder"):
        probe.read(0)


def test_a_try_of_a_target_is_timed_and_leaves_nothing(folder: Path) -> None:
    probe = Canary("/", "n1", targets=(f"t0={folder}",), bytes="64K")
    found = probe.read(0)
    assert found.readings
    for reading in found.readings:
        ((key, values),) = reading.rows.items()
        assert reading.table == "target"
        assert dict(zip(reading.keys, key, strict=True)) == {"target": "t0", "source": "canary", "client": "n1"}
        assert values[:2] == [1, 64 << 10]
        assert values[2] > 0
    assert {reading.gauges[1] for reading in found.readings} >= {"write_bytes"}
    assert names(folder) == [MARKER]


def test_where_nothing_goes_past_the_cache_only_stable_writes_are_timed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_DIRECT", 0)
    (reading,) = Canary("/", "n1", targets=(f"t0={folder}",), bytes="4K").read(0).readings
    assert reading.gauges[1] == "write_bytes"
    assert names(folder) == [MARKER]


def test_a_try_of_a_metadata_server_creates_looks_and_removes(folder: Path) -> None:
    (reading,) = Canary("/", "n1", mds=(f"m0={folder}",)).read(0).readings
    assert reading.table == "metadata"
    assert sorted(key[0] for key in reading.rows if key[0]) == ["create", "getattr", "unlink"]
    assert names(folder) == [MARKER]


def test_one_folder_a_look_in_turn(tmp_path: Path) -> None:
    words = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / MARKER).touch()
        words.append(f"{name}=/{name}")
    probe = Canary(str(tmp_path), "n1", targets=words[:2], mds=words[2:], bytes="4K")
    seen = []
    for _ in range(6):
        readings = probe.read(0).readings
        seen.append({value for reading in readings for key in reading.rows for value in key} & {"a", "b", "c"})
    assert seen == [{"a"}, {"b"}, {"c"}] * 2


def test_a_folder_that_is_not_its_own_is_refused_and_untouched(tmp_path: Path, folder: Path) -> None:
    bare, link, shared = tmp_path / "bare", tmp_path / "link", tmp_path / "shared"
    bare.mkdir(mode=0o700)
    link.symlink_to(folder)
    shared.mkdir()
    (shared / MARKER).touch()
    shared.chmod(0o777)
    (tmp_path / "linked").mkdir(mode=0o700)
    (tmp_path / "linked" / MARKER).symlink_to(folder / MARKER)
    for path in (bare, link, shared, tmp_path / "linked", tmp_path / "none"):
        before = names(path) if path.exists() else None
        with pytest.raises(OSError, match=r"."):
            Canary("/", "n1", targets=(f"t0={path}",)).read(0)
        assert before == (names(path) if path.exists() else None)


def test_only_its_own_leftover_is_removed(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (folder / "canary-n1").write_text("left behind by a try that was killed")
    assert Canary("/", "n1", targets=(f"t0={folder}",), bytes="4K").read(0).readings
    (folder / "canary-n1").symlink_to(precious)
    with pytest.raises(OSError, match="something else"):
        Canary("/", "n1", targets=(f"t0={folder}",), bytes="4K").read(0)
    assert precious.read_text() == "keep"
    (folder / "canary-n1").unlink()
    os.link(precious, folder / "canary-n1")
    handle = open_canary_folder(str(folder))
    with pytest.raises(PermissionError):
        clear_canary_leftover(handle, "canary-n1")
    os.close(handle)


def test_a_folder_that_hangs_is_told_left_alone_and_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("slow", "fast"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / MARKER).touch()
    probe = Canary(str(tmp_path), "n1", targets=("slow=/slow", "fast=/fast"), bytes="4K")
    probe.timeout_s = 0.2
    opened, free = canary.open_canary_folder, threading.Event()
    tries: list[str] = []

    def hanging(path: str) -> int:
        tries.append(Path(path).name)
        if path.endswith("slow") and not free.is_set():
            # A FIFO without a writer: the open hangs in the kernel, as on a server that is away.
            os.close(os.open(tmp_path / "fifo", os.O_RDONLY))
            free.set()
        return opened(path)

    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(canary, "open_canary_folder", hanging)
    found = probe.read(7)
    (event,) = found.events
    assert (event.kind, event.component) == ("canary_hung", "slow")
    assert not found.readings
    probe.timeout_s = 20.0
    for _ in range(3):
        assert probe.read(8).readings, "the other one goes on"
    assert tries == ["slow", "fast", "fast", "fast"]
    with (tmp_path / "fifo").open("wb"):
        assert free.wait(PATIENCE_S)
    (running,) = probe._hung.values()
    assert running.done.wait(PATIENCE_S)
    assert [one.kind for one in probe.read(9).events] == ["canary_back"]


def test_settings_are_checked() -> None:
    assert parse_canary_places(["t=/a"], ["m=/b"]) == [Place("t", "/a", False), Place("m", "/b", True)]
    assert (parse_canary_size("4K"), parse_canary_size("1M")) == (4096, 1 << 20)
    for wrong in (["t"], ["=/a"], ["t=a"], ["t=/a/../b"], ["t=/a", "t=/b"]):
        with pytest.raises(ValueError, match=r"."):
            parse_canary_places(wrong, [])
    for size in ("0", "5K", "1G", "32M", "x"):
        with pytest.raises(ValueError, match=r"."):
            parse_canary_size(size)


def test_the_agents_file_configures_it(tmp_path: Path) -> None:
    config = tmp_path / "agent.conf"
    config.write_text("probes = auto, canary\n[probe canary]\ntargets = t0=/a t1=/b\nmds = m0=/c\nbytes = 64K\n")
    settings = parse_agent_settings(["--config", str(config)])
    made = dict(probe_names.make_named_probes(settings.probes, "/", "n1", settings.probe))["canary"]
    assert isinstance(made, Canary)
    assert [place.name for place in made.places] == ["t0", "t1", "m0"]
    assert made.size == 64 << 10
    config.write_text("probes = canary\n[probe canary]\ntargets = /a\n")
    wrong = parse_agent_settings(["--config", str(config)])
    with pytest.raises(SettingError, match="NAME=/FOLDER"):
        probe_names.make_named_probes(wrong.probes, "/", "n1", wrong.probe)


def test_no_sum_of_ordinary_load_counts_canaries(folder: Path) -> None:
    """As they travel: rows become a batch, are decoded, and summed beside what a server counted."""
    seqs = iter(range(1, 100))

    def header(table: str, version: int, rows: int, first: int | None, last: int | None) -> Header:
        return Header(table, version, "n1", "b", next(seqs), rows, "agent", "agent", first, last)

    sheets = Sheets("n1", header)
    probe = Canary("/", "n1", targets=(f"t0={folder}",), mds=(f"m0={folder}",), bytes="4K")
    deltas = [Deltas() for _ in range(4)]
    for at in range(4):
        for place, reading in enumerate(probe.read(0).readings):
            for row in deltas[2 * (at % 2) + place].advance(reading, at):
                sheets.add_reading(reading, 10**18 + at * 10**9, row.key, row.values, row.interval_ns)
    tables = {}
    for batch in decode_stream_batches(io.BytesIO(b"".join(sheets.take_batches())), "here"):
        tables[batch.header.table] = pa.Table.from_batches(list(arrow_rows(batch, "here")))
    assert set(tables) == {"target", "metadata"}
    for table in tables.values():
        assert set(table["source"].to_pylist()) == {"canary"}
        assert table["server"].null_count == table.num_rows, "the node that tries is no server"
        assert pc.min(table["interval_ns"]).as_py() > 0
    assert "canary" in PART_SOURCES
    assert derive_rollups(tables) == {}
