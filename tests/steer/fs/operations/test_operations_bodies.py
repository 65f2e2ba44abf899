"""Bodies of messages: the sizes the kernel expects, times before 1970, listings that fit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse import messages as bodies
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.operations import names as operations_names
from fairlead.steer.fs.operations import open_files as operations_open
from fairlead.steer.fs.trees.base import Entry

ELSEWHERE = {Op.READ, Op.WRITE, Op.INIT, Op.DESTROY, Op.INTERRUPT, Op.NOTIFY_REPLY}
"""READ and WRITE are in `operations`, the others are the mount's."""
NOT_DONE = {Op.BMAP, Op.IOCTL, Op.POLL, Op.SETUPMAPPING, Op.REMOVEMAPPING, Op.STATX}
"""Answered with ENOSYS: the kernel does without."""


def test_every_opcode_is_carried_out_or_refused_on_purpose() -> None:
    done = set(operations_names.TABLE) | set(operations_open.TABLE)
    assert not set(operations_names.TABLE) & set(operations_open.TABLE)
    assert done | ELSEWHERE | NOT_DONE == set(Op)
    assert not done & (ELSEWHERE | NOT_DONE)


def test_an_entry_holds_the_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 5000)
    os.utime(path, ns=(3_000_000_004, 5_000_000_006))
    st = path.stat()
    packed = bodies.pack_entry_message(77, st, 1, 2)
    assert len(packed) == bodies.ENTRY_BYTES == 128
    assert abi.ENTRY.unpack_from(packed) == (77, 0, 1, 1, 2, 2)
    attributes = abi.ATTR.unpack_from(packed, abi.ENTRY.size)
    assert attributes[:5] == (st.st_ino, 5000, st.st_blocks, 3, 5)
    assert attributes[6:8] == (4, 6)
    assert attributes[9:13] == (st.st_mode, 1, st.st_uid, st.st_gid)
    alone = bodies.pack_attributes_message(st, 1, 2)
    assert len(alone) == 104
    assert alone[16:] == packed[40:]


def test_devices_are_numbered_as_the_kernel_does() -> None:
    null = Path("/dev/null").stat()
    rdev = abi.ATTR.unpack_from(bodies.pack_entry_message(1, null, 0, 0), abi.ENTRY.size)[13]
    assert rdev == (1 << 8) | 3


@pytest.mark.parametrize("ns", [0, 1, -1, -1_000_000_000, -1_500_000_000, 4_102_444_800_000_000_001])
def test_times_come_back_as_they_went(ns: int, tmp_path: Path) -> None:
    class Stat:
        st_mode = stat.S_IFREG
        st_ino = st_nlink = 1
        st_uid = st_gid = st_size = st_blocks = st_rdev = 0
        st_blksize = 4096
        st_atime_ns = st_mtime_ns = st_ctime_ns = ns

    attributes = abi.ATTR.unpack_from(bodies.pack_attributes_message(Stat(), 0, 0), abi.ATTR_OUT.size)
    assert bodies.convert_message_time(attributes[4], attributes[7]) == ns


def test_names_end_at_their_zero_byte() -> None:
    assert bodies.read_message_name(memoryview(b"12abc\0\0\0"), 2) == b"abc"
    assert bodies.read_message_name(memoryview(b"abc"), 0) == b"abc"
    assert bodies.read_message_name(memoryview(b""), 0) == b""
    assert bodies.read_message_names(memoryview(b"12old\0new\0"), 2) == (b"old", b"new")
    assert bodies.read_message_names(memoryview(b"old"), 0) == (b"old", b"")


@pytest.mark.parametrize("size", [0, 31, 32, 100, 1000, 100_000])
def test_a_listing_fits_and_is_what_single_entries_are(size: int) -> None:
    entries = [Entry(b"n" * (number % 40 + 1), number + 2, 8) for number in range(200)]
    packed = bodies.pack_listing_message(entries, 3, size)
    assert len(packed) <= size
    one_by_one = b""
    for number in range(3, 200):
        more = bodies.pack_dirent_message(entries[number].node - 1, number + 1, 8, entries[number].name)
        if len(one_by_one) + len(more) > size:
            break
        one_by_one += more
    assert packed == one_by_one


def test_no_inode_is_zero_in_a_listing() -> None:
    """A program takes such an entry for a removed one."""
    assert abi.DIRENT.unpack_from(bodies.pack_listing_message([Entry(b".", 1, 4)], 0, 100))[0] != 0
