"""Write-ahead segments: whole frames come back, torn and damaged ones do not, an acknowledged one is on disk."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fairlead.core.errors import LakeError
from fairlead.store import wal
from waiting import PATIENCE_S

FRAMES = [({"n": 0}, [b""]), ({"n": 1, "é": "x"}, [b"abc", b"defg"]), ({"n": 2}, [bytes(range(256)) * 4])]


def _written(folder: Path) -> Path:
    segment = wal.Segment(folder, 7)
    for meta, bodies in FRAMES:
        segment.settle(segment.append(meta, bodies))
    segment.close()
    return segment.path


def _read(path: Path) -> list[tuple[dict[str, object], bytes]]:
    return [(frame.meta, bytes(frame.body)) for frame in wal.read_wal_segment(path).frames]


EXPECTED = [(meta, b"".join(bodies)) for meta, bodies in FRAMES]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    path = _written(tmp_path)
    assert _read(path) == EXPECTED
    contents = wal.read_wal_segment(path)
    assert (contents.torn, contents.damaged) == (0, 0)
    assert wal.list_wal_segments(tmp_path) == [(7, path)]
    assert wal.list_wal_segments(tmp_path / "none") == []


def test_a_tail_torn_at_any_byte_loses_only_its_frame(tmp_path: Path) -> None:
    whole = _written(tmp_path).read_bytes()
    torn = tmp_path / "torn"
    counts = set()
    for size in range(len(whole) + 1):
        torn.write_bytes(whole[:size])
        contents = wal.read_wal_segment(torn)
        counts.add(len(contents.frames))
        assert [(f.meta, bytes(f.body)) for f in contents.frames] == EXPECTED[: len(contents.frames)]
        assert contents.damaged == 0
    assert counts == {0, 1, 2, 3}


def test_a_flipped_bit_never_passes_for_a_frame(tmp_path: Path) -> None:
    whole = bytearray(_written(tmp_path).read_bytes())
    bad = tmp_path / "bad"
    for at in range(len(whole)):
        whole[at] ^= 0x10
        bad.write_bytes(whole)
        contents = wal.read_wal_segment(bad)
        assert len(contents.frames) < 3
        assert all((f.meta, bytes(f.body)) in EXPECTED for f in contents.frames)
        assert contents.damaged or contents.torn
        whole[at] ^= 0x10


def test_frames_after_a_damaged_one_are_still_read(tmp_path: Path) -> None:
    path = _written(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"abc")] ^= 1
    path.write_bytes(whole)
    contents = wal.read_wal_segment(path)
    assert [f.meta["n"] for f in contents.frames] == [0, 2]
    assert contents.damaged == 1


def test_zeros_after_the_frames_are_a_torn_tail(tmp_path: Path) -> None:
    path = _written(tmp_path)
    with path.open("ab") as out:
        out.write(bytes(4096))
    contents = wal.read_wal_segment(path)
    assert (len(contents.frames), contents.torn, contents.damaged) == (3, 4096, 0)


def test_a_number_is_used_once(tmp_path: Path) -> None:
    _written(tmp_path)
    with pytest.raises(LakeError):
        wal.Segment(tmp_path, 7)


def test_many_threads_share_the_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = wal.Segment(tmp_path, 1)
    syncs = []
    real = os.fdatasync
    gate = threading.Event()

    def slow(handle: int) -> None:
        syncs.append(handle)
        if len(syncs) == 1:
            gate.wait(PATIENCE_S)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", slow)
    appended = threading.Barrier(17)

    def work(n: int) -> None:
        offset = segment.append({"n": n}, [b"x" * n])
        appended.wait(PATIENCE_S)
        segment.settle(offset)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    appended.wait(PATIENCE_S)
    gate.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert 1 <= len(syncs) <= 2
    assert sorted(f.meta["n"] for f in wal.read_wal_segment(segment.path).frames) == list(range(16))
    segment.close()


def test_after_a_failed_sync_nothing_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = wal.Segment(tmp_path, 1)
    offset = segment.append({"n": 1}, [b"x"])
    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", _failing(errno.EIO))
        with pytest.raises(LakeError, match="Input/output error") as caught:
            segment.settle(offset)
        assert caught.value.where == str(segment.path)
        assert caught.value.remedy
    with pytest.raises(LakeError):
        segment.settle(offset)
    with pytest.raises(LakeError):
        segment.append({"n": 2}, [b"x"])


def test_a_frame_that_does_not_fit_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = wal.Segment(tmp_path, 1)
    segment.append({"n": 1}, [b"x"])
    real = os.write
    with monkeypatch.context() as full:

        def partly(handle: int, data: bytes) -> int:
            if len(data) > 100:
                real(handle, bytes(data[:50]))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        full.setattr(os, "write", partly)
        with pytest.raises(LakeError, match="No space left"):
            segment.append({"n": 2}, [b"y" * 1000])
    segment.settle(segment.append({"n": 3}, [b"z"]))
    segment.close()
    contents = wal.read_wal_segment(segment.path)
    assert [f.meta["n"] for f in contents.frames] == [1, 3]
    assert contents.torn == 0


def _failing(number: int):  # type: ignore[no-untyped-def]
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail
