"""A real GlusterFS volume on loop files, for tests: two bricks, one pool of one node, all in a folder of the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from waiting import PATIENCE_S, Progress

PORT = 24007
BRICK_BYTES = 256 << 20
_CONFIG = """\
volume management
    type mgmt/glusterd
    option working-directory {folder}/glusterd
    option run-directory {folder}/run
    option transport-type socket
    option transport.socket.listen-port 24007
    option transport.address-family inet
end-volume
"""


@dataclass(frozen=True)
class Volume:
    """A started, profiled volume `v0`, mounted at `mount`."""

    mount: Path
    bricks: list[str]


def why_not() -> str | None:
    """Why no volume can be made here."""
    if os.geteuid() != 0:
        return "a GlusterFS volume needs root (loop devices, mounts)"
    lacking = [p for p in ("glusterd", "gluster", "mount.glusterfs", "mkfs.ext4") if shutil.which(p) is None]
    if lacking:
        return f"{lacking[0]} is not here: apt-get install glusterfs-server glusterfs-client e2fsprogs"
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            return f"something listens on port {PORT} already"
    return None


def _run(*argv: str | Path) -> None:
    subprocess.run([str(word) for word in argv], check=True, capture_output=True, timeout=PATIENCE_S)


@contextmanager
def volume(folder: Path) -> Iterator[Volume]:
    """A volume in `folder`; gone, with its mounts and processes, at the end. Skips where none can be made."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    for name in ("glusterd", "run", "mount"):
        (folder / name).mkdir()
    (folder / "glusterd.vol").write_text(_CONFIG.format(folder=folder))
    mounted: list[Path] = []
    log = (folder / "glusterd.out").open("wb")
    daemon = subprocess.Popen(
        [
            "glusterd",
            "-f",
            folder / "glusterd.vol",
            "-l",
            folder / "glusterd.log",
            "-p",
            folder / "run/glusterd.pid",
            "--no-daemon",
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        bricks = []
        for number in range(2):
            image, place = folder / f"disk{number}", folder / f"m{number}"
            with image.open("wb") as file:
                file.truncate(BRICK_BYTES)
            place.mkdir()
            _run("mkfs.ext4", "-q", image)
            _run("mount", "-o", "loop", image, place)
            mounted.append(place)
            (place / "brick").mkdir()
            bricks.append(f"{socket.gethostname()}:{place}/brick")
        _until_it_answers(daemon)
        _run("gluster", "--mode=script", "volume", "create", "v0", *bricks, "force")
        _run("gluster", "--mode=script", "volume", "start", "v0")
        _run("gluster", "--mode=script", "volume", "profile", "v0", "start")
        _run("mount", "-t", "glusterfs", f"{socket.gethostname()}:/v0", folder / "mount")
        mounted.append(folder / "mount")
        yield Volume(folder / "mount", bricks)
    finally:
        for place in reversed(mounted):
            if place.name == "mount":
                subprocess.run(["umount", place], check=False, timeout=PATIENCE_S)
        subprocess.run(
            ["gluster", "--mode=script", "volume", "stop", "v0", "force"],
            check=False,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        daemon.terminate()
        with suppress(subprocess.TimeoutExpired):
            daemon.wait(20)
        daemon.kill()
        log.close()
        subprocess.run(["pkill", "-f", f"glusterfs.*{folder}"], check=False)
        for place in mounted:
            if place.name != "mount":
                subprocess.run(["umount", "-l", place], check=False, timeout=PATIENCE_S)


def _until_it_answers(daemon: subprocess.Popen[bytes]) -> None:
    progress = Progress()
    while daemon.poll() is None and not progress.stalled():
        command = ["gluster", "--mode=script", "pool", "list"]
        asked = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        if asked.returncode == 0:
            return
        time.sleep(0.2)
    pytest.skip("glusterd does not start here")
