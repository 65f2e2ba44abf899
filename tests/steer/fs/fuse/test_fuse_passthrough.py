"""Backing files: one for each node, however often it is open, given back with the last."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from struct import unpack

import pytest

from fairlead.steer.fs.fuse import abi, passthrough
from fairlead.steer.fs.fuse.abi import OpenReply
from fairlead.steer.fs.fuse.passthrough import BackingFiles

DEVICE = 77


class Ioctl:
    """The kernel's side: numbers handed out and taken back."""

    def __init__(self) -> None:
        self.registered: list[int] = []
        self.live: set[int] = set()
        self.refuses = 0

    def __call__(self, fd: int, request: int, argument: bytearray) -> int:
        assert fd == DEVICE
        if request == abi.DEV_IOC_BACKING_OPEN:
            if self.refuses:
                raise OSError(self.refuses, os.strerror(self.refuses))
            self.registered.append(abi.BACKING_MAP.unpack(argument)[0])
            number = len(self.registered)
            self.live.add(number)
            return number
        assert request == abi.DEV_IOC_BACKING_CLOSE
        self.live.remove(unpack("<I", argument)[0])
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Ioctl:
    kernel = Ioctl()
    monkeypatch.setattr(passthrough.fcntl, "ioctl", kernel)
    return kernel


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def _reply(handle: int) -> bytes:
    flags = OpenReply.DIRECT_IO | OpenReply.PARALLEL_DIRECT_WRITES | OpenReply.NOFLUSH
    return b"entry" + abi.OPEN_OUT.pack(handle, flags, 0)


def _opened(reply: bytes) -> tuple[int, int, int]:
    fields: tuple[int, int, int] = abi.OPEN_OUT.unpack(reply[5:])
    return fields


def test_openings_of_a_node_share_a_backing_file(kernel: Ioctl, descriptor: int) -> None:
    backings = BackingFiles(DEVICE)
    flags = OpenReply.PASSTHROUGH | OpenReply.NOFLUSH
    assert _opened(backings.hand_over(5, 1, descriptor, _reply(1))) == (1, flags, 1)
    assert _opened(backings.hand_over(5, 2, descriptor, _reply(2))) == (2, flags, 1)
    assert _opened(backings.hand_over(6, 3, descriptor, _reply(3))) == (3, flags, 2)
    backings.release_handle(1)
    assert kernel.live == {1, 2}
    backings.release_handle(2)
    assert kernel.live == {2}
    backings.release_handle(2)
    backings.release_handle(99)
    assert _opened(backings.hand_over(5, 4, descriptor, _reply(4))) == (4, flags, 3)
    assert kernel.registered == [descriptor] * 3


def test_a_file_the_kernel_refuses_is_served_here(kernel: Ioctl, descriptor: int) -> None:
    kernel.refuses = errno.ELOOP
    backings = BackingFiles(DEVICE)
    assert backings.hand_over(5, 1, descriptor, _reply(1)) == _reply(1)
    assert backings.refused == errno.ELOOP
    backings.release_handle(1)
    assert not backings.has_no_capability(5, b"security.capability")


def test_what_the_kernel_asks_before_writes_is_known(kernel: Ioctl, descriptor: int) -> None:
    backings = BackingFiles(DEVICE)
    backings.hand_over(5, 1, descriptor, _reply(1))
    assert backings.has_no_capability(5, b"security.capability")
    assert not backings.has_no_capability(5, b"user.other")
    assert not backings.has_no_capability(6, b"security.capability")
    backings.note_attribute(5, b"user.other")
    assert backings.has_no_capability(5, b"security.capability")
    backings.note_attribute(5, b"security.capability")
    assert not backings.has_no_capability(5, b"security.capability")
    backings.release_handle(1)
    backings.hand_over(5, 2, descriptor, _reply(2))
    backings.release_handle(2)
    assert not backings.has_no_capability(5, b"security.capability"), "closed: the tree is asked"
