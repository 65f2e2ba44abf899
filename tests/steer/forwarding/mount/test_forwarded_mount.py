"""The life of a mount whose requests go to forwarders: its commands, its map file, a forwarder that is gone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.steer.fs.fuse.mount_table import find_in_mount_table, probe_mount_folder
from mounting import DEADLINE_S, Mount, fairlead, forwarded_mount, forwarder, start, take_off, wait_until

pytestmark = pytest.mark.fuse


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "greeting").write_text("hello\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "mount"
    place.mkdir()
    yield place
    take_off(place)


def _status(mount: Mount) -> dict[str, object]:
    done = fairlead("mount", "--list", "--json", runtime=mount.runtime)
    listed = json.loads(done.stdout)["mounts"]
    return next((one["status"] or {} for one in listed if one["mountpoint"] == str(mount.folder)), {})


def test_mounts_and_unmounts(export: Path, folder: Path, tmp_path: Path) -> None:
    with forwarded_mount(export, folder, state=tmp_path) as mount:
        assert (folder / "greeting").read_text() == "hello\n"
        (folder / "new").write_bytes(os.urandom(300_000))
        assert (export / "new").read_bytes() == (folder / "new").read_bytes()
        assert _status(mount)["forwarder"] == f"unix:{tmp_path}/forwarder0.sock"
        done = fairlead("umount", folder, runtime=mount.runtime)
        assert done.returncode == 0, done.stderr
        assert mount.process.wait(DEADLINE_S) == 0, mount.said()
        assert find_in_mount_table(str(folder)) is None


def test_in_the_background(export: Path, folder: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    address = f"unix:{tmp_path}/forwarder.sock"
    with forwarder(export, address, state=tmp_path):
        done = fairlead("mount", address, folder, runtime=runtime)
        assert done.returncode == 0, done.stderr
        assert (folder / "greeting").read_text() == "hello\n"
        done = fairlead("umount", folder, runtime=runtime)
        assert done.returncode == 0, done.stderr


def test_ends_on_sigterm_although_its_forwarder_is_gone(export: Path, folder: Path, tmp_path: Path) -> None:
    with forwarded_mount(export, folder, state=tmp_path) as mount:
        mount.forwarders[0].kill()
        wait_until(lambda: "lost" in mount.said(), "the mount notices")
        assert mount.end() == 0, mount.said()
        assert not mount.mounted
        assert "Traceback" not in mount.said()


def test_a_killed_mount_is_recovered(export: Path, folder: Path, tmp_path: Path) -> None:
    with forwarded_mount(export, folder, state=tmp_path) as dead:
        dead.kill()
        assert probe_mount_folder(str(folder), within_s=DEADLINE_S) == errno.ENOTCONN
        address = f"unix:{tmp_path}/forwarder0.sock"
        done = fairlead("mount", address, folder, runtime=dead.runtime)
        assert done.returncode == 0, done.stderr
        assert "took a dead mount off" in done.stderr
        assert (folder / "greeting").read_text() == "hello\n"
        assert fairlead("umount", folder, runtime=dead.runtime).returncode == 0


def test_a_map_file_moves_the_mount(export: Path, folder: Path, tmp_path: Path) -> None:
    first, second = f"unix:{tmp_path}/first.sock", f"unix:{tmp_path}/second.sock"
    table = tmp_path / "map"
    table.write_text(f"nobody[1-9] unix:/nowhere\n* {first}\n")
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    with forwarder(export, first, state=tmp_path), forwarder(export, second, state=tmp_path):
        done = fairlead("mount", "--map", table, folder, runtime=runtime)
        assert done.returncode == 0, done.stderr

        def at() -> object:
            listed = json.loads(fairlead("mount", "--list", "--json", runtime=runtime).stdout)["mounts"]
            return next(one["status"]["forwarder"] for one in listed if one["mountpoint"] == str(folder))

        with (folder / "open").open("wb", buffering=0) as file:
            file.write(b"before ")
            assert at() == first
            table.write_text("malformed\n")
            table.with_suffix(".new").write_text(f"* {second},{first}\n")
            table.with_suffix(".new").replace(table)
            wait_until(lambda: at() == second, "the mount has moved")
            file.write(b"after")
        assert (export / "open").read_bytes() == b"before after"
        done = fairlead("umount", folder, runtime=runtime)
        assert done.returncode == 0, done.stderr


def test_what_keeps_it_from_mounting_is_said(export: Path, folder: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    table = tmp_path / "map"
    table.write_text("other unix:/nowhere\n")
    token = tmp_path / "token"
    token.write_text("nonsense\n")
    token.chmod(0o600)
    for arguments, code, word in [
        ([f"unix:{tmp_path}/absent.sock"], 8, "no forwarder answers"),
        (["--map", table], 5, "no line names this node"),
        ([f"unix:{tmp_path}/absent.sock", "--token", tmp_path / "absent"], 2, "does not exist"),
        (["--token", token, "tcp:127.0.0.1:1"], 8, "no forwarder answers"),
        (["tcp:nohost"], 2, "no host and port"),
        ([","], 2, "no forwarder"),
    ]:
        done = fairlead("mount", *arguments, folder, runtime=runtime)
        assert done.returncode == code, (arguments, done.stderr)
        assert word in done.stderr, arguments
        assert "Traceback" not in done.stderr
        assert find_in_mount_table(str(folder)) is None


def test_a_local_mount_has_no_forwarder_to_change(export: Path, folder: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    running = start("mount", "--local", export, folder, "--foreground", said_to=tmp_path / "said", runtime=runtime)
    try:
        running.wait_for("mounted on")
        done = fairlead("remap", folder, "unix:/nowhere", runtime=runtime)
        assert done.returncode == 8
        assert "no forwarder" in done.stderr
    finally:
        running.end()
        take_off(folder)
