"""A spool: files are whole or not there, the oldest go when it is full, and what was lost is told."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fairlead.core.batches import spool as spooling
from fairlead.core.batches.decoding import Batch, decode_stream_batches
from fairlead.core.batches.encoding import encode_batch, encode_numbers, encode_words
from fairlead.core.batches.spool import Spool, count_spool_batches
from fairlead.core.errors import ForwardingError
from fairlead.steer.forwarding.record_spool import open_record_spool


def _batch(spool: Spool, rows: int = 3, filler: str = "x") -> bytes:
    columns = {
        "ts_ns": encode_numbers(range(rows)),
        "component": encode_words([filler] * rows),
        "kind": encode_words(["k"] * rows),
        "text": encode_words([os.urandom(8).hex() for _ in range(rows)]),
    }
    return encode_batch(spool.build_header("events", 1, rows), columns)


def _all(folder: Path) -> list[Batch]:
    found = []
    for path in sorted(folder.glob("*.batch")):
        with path.open("rb") as stream:
            found += decode_stream_batches(stream, str(path))
    return found


def _texts(batch: Batch) -> list[str]:
    column = batch.columns["text"]
    return [column.words[code] for code in column.codes]  # type: ignore[union-attr]


def test_files_come_in_order_and_have_names_of_their_own(tmp_path: Path) -> None:
    writers = [Spool(tmp_path / "deep" / "spool", node="n", writer="mount:/scratch/x y") for _ in range(3)]
    for _ in range(4):
        for spool in writers:
            path = spool.write([_batch(spool), _batch(spool)])
            assert path is not None
            assert Path(path).exists()
    found = _all(tmp_path / "deep" / "spool")
    assert len({(one.header.boot_id, one.header.seq) for one in found}) == len(found) == 24
    for spool in writers:
        seqs = [one.header.seq for one in found if one.header.boot_id == spool.boot_id]
        assert seqs == sorted(seqs)
    assert Spool(tmp_path, node="n", writer="w").write([]) is None


def test_the_oldest_go_when_it_is_full_and_that_is_told(tmp_path: Path) -> None:
    now = iter(range(1_000, 100_000))
    spool = Spool(tmp_path, node="n", writer="w", max_bytes=20_000, clock=lambda: next(now))
    other = Spool(tmp_path, node="n", writer="v", max_bytes=20_000, clock=lambda: next(now))
    for number in range(60):
        assert (other if number % 3 == 0 else spool).write([_batch(spool, 20)]) is not None
    held = sorted(tmp_path.glob("*.batch"))
    assert sum(path.stat().st_size for path in held) <= 20_000 + 2_000
    assert len(held) < 60
    told = [text for one in _all(tmp_path) for text in _texts(one) if "oldest files" in text]
    assert told


def test_what_cannot_be_written_is_told_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, node="n", writer="w")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spooling.os, "write", full)
        assert spool.write([_batch(spool), _batch(spool)]) is None
        assert spool.write([_batch(spool)]) is None
    assert not list(tmp_path.iterdir())
    assert spool.write([_batch(spool)]) is not None
    (told,) = [text for one in _all(tmp_path) for text in _texts(one) if "could not be written" in text]
    assert told.startswith("3 batches")
    assert spool.write([_batch(spool)]) is not None
    assert len(_all(tmp_path)) == 3


def test_a_file_is_whole_when_it_is_seen(tmp_path: Path) -> None:
    spool = Spool(tmp_path, node="n", writer="w", sync=True)
    seen: set[str] = set()
    stop = threading.Event()
    faults: list[BaseException] = []

    def look() -> None:
        try:
            while not stop.is_set():
                for path in set(tmp_path.glob("*.batch")):
                    if path.name not in seen:
                        seen.add(path.name)
                        with path.open("rb") as stream:
                            assert sum(1 for _ in decode_stream_batches(stream, str(path))) == 2
        except BaseException as fault:  # noqa: BLE001  (told to the test)
            faults.append(fault)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(40):
        spool.write([_batch(spool, 200), _batch(spool, 300)])
    stop.set()
    thread.join()
    assert not faults


def test_drafts_of_the_dead_are_removed_when_old(tmp_path: Path) -> None:
    old, young = tmp_path / ".dead-1.tmp", tmp_path / ".other-2.tmp"
    for draft in (old, young):
        draft.write_bytes(b"half")
    os.utime(old, (1, 1))
    Spool(tmp_path, node="n", writer="w")
    assert not old.exists()
    assert young.exists()


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ForwardingError, match="records cannot be written"):
        open_record_spool(tmp_path / "file" / "spool", node="n", writer="w")
    with pytest.raises(OSError, match="directory"):
        Spool(tmp_path / "file" / "spool", node="n", writer="w")


def test_batches_of_a_file_are_counted_and_a_cut_is_seen(tmp_path: Path) -> None:
    spool = Spool(tmp_path, node="n", writer="w")
    path = spool.write([_batch(spool), _batch(spool, 5), _batch(spool)])
    assert path is not None
    data = Path(path).read_bytes()
    assert count_spool_batches(path) == (3, True)
    for cut in (1, 10, len(data) // 2, len(data) - 1):
        Path(path).write_bytes(data[:cut])
        count, whole = count_spool_batches(path)
        assert count < 3
        assert not whole
    Path(path).write_bytes(data + b"x")
    assert count_spool_batches(path) == (3, False)


def test_what_had_to_go_is_counted_by_batch(tmp_path: Path) -> None:
    now = iter(range(1_000, 100_000))
    spool = Spool(tmp_path, node="n", writer="w", max_bytes=20_000, clock=lambda: next(now))
    written = 0
    for _ in range(40):
        assert spool.write([_batch(spool, 20), _batch(spool, 20)]) is not None
        written += 2
    told = sum("oldest files" in text for one in _all(tmp_path) for text in _texts(one))
    held = sum(1 for one in _all(tmp_path) if not any("oldest files" in text for text in _texts(one)))
    assert told
    assert 0 < written - held <= spool.lost_batches
