"""The paths records give files of a striped tree."""

from __future__ import annotations

from fairlead.steer.targets.inode import ROOT_INODE, Inode
from fairlead.steer.targets.name_cache import SeenNames

FOLDER, FILE = 0o040755, 0o100644


def inode(ino: int, mode: int, *targets: str) -> Inode:
    return Inode(ino, mode, 1, 0, 0, 0, 0, 0, 0, 0, targets=list(targets))


def test_a_path_is_known_when_all_of_it_was_seen() -> None:
    names = SeenNames()
    names.record_name(10, b"out", inode(20, FILE))
    assert names.find_path(20) == ""
    names.record_name(ROOT_INODE, b"run", inode(10, FOLDER))
    assert names.find_path(20) == "/run/out"
    assert names.find_path(99) == ""


def test_renames_are_followed_also_of_folders_and_both_ways() -> None:
    names = SeenNames()
    names.record_name(ROOT_INODE, b"run", inode(10, FOLDER))
    names.record_name(10, b"out", inode(20, FILE))
    names.record_name(10, b"log", inode(21, FILE))
    names.record_rename(ROOT_INODE, b"run", ROOT_INODE, b"old")
    names.record_rename(10, b"out", 10, b"log", exchange=True)
    assert (names.find_path(20), names.find_path(21)) == ("/old/log", "/old/out")
    names.record_rename(10, b"log", 10, b"out")
    assert (names.find_path(20), names.find_path(21)) == ("/old/out", "")


def test_names_that_are_no_text_are_written_so_that_they_can_be_read() -> None:
    names = SeenNames()
    names.record_name(ROOT_INODE, b"\xff", inode(20, FILE))
    assert names.find_path(20) == "/\\xff"


def test_no_more_is_kept_than_is_of_use() -> None:
    names = SeenNames()
    names.record_name(ROOT_INODE, b"placed", inode(20, FILE, "t0"))
    assert names.find_path(20) == ""
    for ino in range(100, 70_100):
        names.record_name(ROOT_INODE, b"%d" % ino, inode(ino, FILE))
    assert names.find_path(100) == ""
    assert names.find_path(70_099) == "/70099"
    names.has_targets(70_099)
    assert names.find_path(70_099) == ""
