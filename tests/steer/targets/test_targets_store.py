"""The metadata store: what survives a power failure, numbers that are never used twice, requests carried out once."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from fairlead.core.errors import ForwardingError
from fairlead.steer.targets import namespace
from fairlead.steer.targets import protocol as calls
from fairlead.steer.targets.inode import ROOT_INODE
from fairlead.steer.targets.lmdb_environment import rewind_lmdb_pages
from fairlead.steer.targets.namespace import New
from fairlead.steer.targets.records import Records
from fairlead.steer.targets.store import LocalStore

MAP = 64 << 20
NEW = New(0o100644, 0, 0)


def _make(store: LocalStore, *numbers: int) -> None:
    for number in numbers:
        store.write(namespace.create_namespace_entry, ROOT_INODE, b"f%d" % number, NEW, number, None)


def _names(store: LocalStore) -> set[bytes]:
    return {name for name, _, _ in store.read(namespace.list_namespace_entries, ROOT_INODE, None)} - {b".", b".."}


@pytest.mark.parametrize("seed", range(4))
def test_a_power_failure_leads_back_to_the_last_sync(tmp_path: Path, seed: int) -> None:
    store = LocalStore(str(tmp_path / "m"), map_size=MAP)
    _make(store, *range(300))
    store.sync()
    synced = (tmp_path / "m" / "data.mdb").read_bytes()
    for number in range(300, 600):
        _make(store, number)
        store.write(namespace.unlink_namespace_entry, ROOT_INODE, b"f%d" % (number - 300), 1, None)
    after = (tmp_path / "m" / "data.mdb").read_bytes()
    meta = (tmp_path / "m" / "synced.meta").read_bytes()
    store.close()
    # The disk has any mixture of pages from before and after, and both meta pages of after.
    stream = random.Random(seed)
    pages = [
        (after if at < 2 * 4096 or at >= len(synced) or stream.random() < 0.5 else synced)[at : at + 4096]
        for at in range(0, len(after), 4096)
    ]
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    (crashed / "data.mdb").write_bytes(b"".join(pages))
    (crashed / "synced.meta").write_bytes(meta)
    rewind_lmdb_pages(str(crashed))
    again = LocalStore(str(crashed), map_size=MAP)
    assert _names(again) == {b"f%d" % number for number in range(300)}
    _make(again, 1000)
    again.close()


def test_a_reboot_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    store = LocalStore(str(folder), map_size=MAP)
    _make(store, 1)
    store.sync()
    _make(store, 2)
    # As a power failure leaves it: no clean end, another boot.
    shutil.copytree(folder, tmp_path / "copy")
    store.close()
    (tmp_path / "copy" / "boot").write_bytes(b"another boot\n")
    again = LocalStore(str(tmp_path / "copy"), map_size=MAP)
    assert _names(again) == {b"f1"}
    again.close()


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    store = LocalStore(str(folder), map_size=MAP)
    _make(store, 1, 2, 3)
    shutil.copytree(folder, tmp_path / "copy")
    store.close()
    again = LocalStore(str(tmp_path / "copy"), map_size=MAP)
    assert _names(again) == {b"f1", b"f2", b"f3"}
    again.close()


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    seen: set[int] = set()
    for _ in range(3):
        store = LocalStore(str(tmp_path), map_size=MAP)
        for number in range(5):
            made = store.write(namespace.create_namespace_entry, ROOT_INODE, b"x", NEW, number, None)
            assert made.ino not in seen
            seen.add(made.ino)
            store.write(namespace.unlink_namespace_entry, ROOT_INODE, b"x", number, None)
        store.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), map_size=MAP)
    with pytest.raises(ForwardingError, match="fairlead tree serve-metadata"):
        LocalStore(str(tmp_path), map_size=MAP)
    store.close()


def test_a_repeated_request_is_carried_out_once(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), map_size=MAP)
    channel = b"c" * 16

    def act(records: Records) -> bytes:
        return calls.encode(namespace.create_namespace_entry(records, ROOT_INODE, b"x", NEW, 1, None))

    first = store.write_once(channel, 1, act)
    assert store.write_once(channel, 1, act) == first
    with pytest.raises(FileExistsError):
        store.write_once(channel, 2, act)
    store.close()


def test_a_failed_transaction_changes_nothing(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), map_size=MAP)
    _make(store, 1)
    with pytest.raises(FileExistsError):
        _make(store, 1)
    assert store.read(namespace.get_namespace_inode, ROOT_INODE).mtime == 1
    store.close()


def test_every_transaction_can_travel() -> None:
    table = calls.build_protocol_calls()
    assert {"make", "rename", "assign", "made", "reclaim", "lock", "leave"} <= table.keys()
    assert not any(name.startswith("_") for name in table)
    # A call that reads must be known as one, or every stat would write.
    assert {name for name, call in table.items() if call.reads} == calls.READING
