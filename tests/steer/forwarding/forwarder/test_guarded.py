"""Requests that must not happen twice, where putting them on record fails: on a full disk, with a name too long."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairlead.core.clock import now_ns
from fairlead.steer.forwarding.forwarder import exactly_once as guarded_module
from fairlead.steer.forwarding.forwarder.exactly_once import LEFT_OVER_S, Guard
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.sessions import Handles
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.fs.trees.directory import DirectoryTree
from fairlead.steer.fs.trees.unlinked_files import open_unlinked_folder

SESSION = "0" * 32


class Guarded:
    """A guard with one session."""

    def __init__(self, path: Path) -> None:
        self.tree = DirectoryTree(path)
        self.guard = Guard(Operations(self.tree), open_unlinked_folder(self.tree.root, b"intents"), "1" * 32)
        self.handles = Handles()
        self._number = 0

    def ask(self, op: Op, body: bytes, *, handle: int = 0) -> bytes | int:
        """A request about a name in the root."""
        self._number += 1
        request = SimpleNamespace(
            session=SimpleNamespace(handles=self.handles),
            number=self._number,
            op=int(op),
            node=ROOT,
            handle=handle,
            flags=0,
            body=memoryview(body),
            data=None,
        )
        return self.guard.execute(self.guard.get_session(SESSION), request)  # type: ignore[arg-type]

    def create(self, name: bytes, handle: int) -> None:
        """An exclusive CREATE."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        self.ask(Op.CREATE, abi.CREATE_IN.pack(flags, 0o100644, 0, 0) + name + b"\0", handle=handle)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.handles.close_all()
    made.guard.close()
    made.tree.close()


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_creation_that_cannot_be_put_on_record_leaves_nothing_open(guarded: Guarded) -> None:
    with pytest.raises(OSError, match="too long"):
        guarded.create(b"x" * 300, 1)
    assert not guarded.tree._open
    assert not guarded.handles.files


def test_on_a_full_disk_files_can_be_removed(guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    fallocate = os.posix_fallocate
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", lambda fd, at, size: fallocate(fd, at, size) if _in_memory(fd) else _full())
        guarded.ask(Op.UNLINK, b"one\0")
    assert not (tmp_path / "one").exists()
    assert list((tmp_path / ".fairlead" / "intents").iterdir()) == []
    guarded.guard.get_session(SESSION)._checked_ns = 0
    guarded.ask(Op.UNLINK, b"two\0")
    assert len(list((tmp_path / ".fairlead" / "intents").iterdir())) == 1


def _in_memory(descriptor: int) -> bool:
    return "memfd:" in str(Path(f"/proc/self/fd/{descriptor}").readlink())


def test_what_was_left_long_ago_goes_and_sessions_that_end_are_forgotten(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".fairlead" / "intents"
    guarded.create(b"file", 1)
    for age, name in ((0, "new"), (2 * LEFT_OVER_S, "old")):
        (folder / name).touch()
        os.utime(folder / name, ns=(0, now_ns() - age * 1_000_000_000))
    guarded.guard.end(SESSION, farewell=True)
    assert not guarded.guard._sessions
    assert sorted(path.name for path in folder.iterdir()) == ["new", "old"]
    guarded.guard.get_session(SESSION)
    monkeypatch.setattr(guarded_module, "_SWEEP_NS", 0)
    guarded.guard.end(SESSION, farewell=True)
    assert [path.name for path in folder.iterdir()] == ["new"]


def test_on_a_full_disk_open_files_can_be_removed(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.create(b"open", 1)
    with monkeypatch.context() as full:
        full.setattr(os, "link", _full)
        guarded.ask(Op.UNLINK, b"open\0")
    assert not (tmp_path / "open").exists()


def test_an_opening_that_cannot_truncate_leaves_nothing_open(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    node, _ = guarded.tree.lookup(ROOT, b"file")
    with monkeypatch.context() as busy:
        busy.setattr(os, "truncate", _full)
        with pytest.raises(OSError, match="No space"):
            guarded.tree.open(node, os.O_WRONLY | os.O_TRUNC)
    assert not guarded.tree._open
