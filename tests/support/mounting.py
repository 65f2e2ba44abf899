"""Mounts for tests, as real processes of `python -m fairlead`: waited for until they answer, and ended for certain.

A test uses the context managers; whatever happens within them, no process and no mount is left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.steer.fs.fuse.mount_table import find_in_mount_table, probe_mount_folder
from waiting import PATIENCE_S, wait_until

DEADLINE_S = PATIENCE_S
NOBODY = 65534


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder other users may enter (pytest's are closed to them), removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="fairlead-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def environment(runtime: Path) -> dict[str, str]:
    """The environment of a command: state files of its own, nothing of the caller's job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "FAIRLEAD_"))}
    return {**kept, "XDG_RUNTIME_DIR": str(runtime), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Running:
    """A command of fairlead in the foreground. Its stderr goes to a file, so that nothing has to be drained."""

    process: subprocess.Popen[bytes]
    said_to: Path

    def said(self) -> str:
        """Everything it has said so far."""
        return self.said_to.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> None:
        """Until it has said this; fails at once when it has ended instead."""
        wait_until(lambda: text in self.said(), lambda: f"{text!r}: {self.said()}", process=self.process)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and waits; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)


@dataclass
class Mount(Running):
    """A running mount."""

    folder: Path
    runtime: Path
    uid: int | None = None
    forwarders: list[Running] = field(default_factory=list)

    @property
    def mounted(self) -> bool:
        """Whether the kernel has a mount on the folder."""
        return find_in_mount_table(str(self.folder)) is not None


def fairlead(
    *arguments: str | Path, runtime: Path, uid: int | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command of fairlead to its end."""
    return subprocess.run(
        _command(arguments, uid),
        env=environment(runtime),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
        cwd=cwd,
    )


def start(*arguments: str | Path, said_to: Path, runtime: Path, uid: int | None = None) -> Running:
    """Starts a command of fairlead that stays in the foreground."""
    with said_to.open("wb") as file:
        process = subprocess.Popen(
            _command(arguments, uid),
            env=environment(runtime),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    return Running(process, said_to)


def take_off(folder: Path) -> None:
    """Takes every mount off a folder, whatever its state."""
    for _ in range(8):
        if find_in_mount_table(str(folder)) is None:
            return
        for command in (["umount", "-l", str(folder)], ["fusermount3", "-u", "-z", str(folder)]):
            with suppress(OSError):
                subprocess.run(command, capture_output=True, check=False, timeout=DEADLINE_S)


@contextmanager
def local_mount(
    source: Path, folder: Path, *options: str | Path, state: Path, uid: int | None = None
) -> Iterator[Mount]:
    """`fairlead mount --local SOURCE DIR OPTIONS`; `state` is a folder for its state files and what it says."""
    with _mounting(["--local", source], folder, options, state, uid, []) as mount:
        yield mount


@contextmanager
def forwarded_mount(
    export: Path | str,
    folder: Path,
    *options: str | Path,
    state: Path,
    forwarders: int = 1,
    forwarder_options: Sequence[str | Path] = (),
    uid: int | None = None,
) -> Iterator[Mount]:
    """Forwarders of a tree on unix sockets in `state`, and a mount through them, in that order of preference."""
    with ExitStack() as stack:
        running = []
        addresses = []
        for index in range(forwarders):
            address = f"unix:{state / f'forwarder{index}.sock'}"
            running.append(stack.enter_context(forwarder(export, address, *forwarder_options, state=state, uid=uid)))
            addresses.append(address)
        yield stack.enter_context(_mounting([",".join(addresses)], folder, options, state, uid, running))


@contextmanager
def forwarder(
    export: Path | str, address: str, *options: str | Path, state: Path, uid: int | None = None
) -> Iterator[Running]:
    """`fairlead forwarder run`, ready to serve."""
    said_to = state / f"forwarder-{len(list(state.glob('forwarder-*.said')))}.said"
    running = start(
        "forwarder",
        "run",
        "--export",
        export,
        "--listen",
        address,
        *options,
        said_to=said_to,
        runtime=_runtime(state, uid),
        uid=uid,
    )
    try:
        running.wait_for("ready")
        yield running
    finally:
        _end(running)


@contextmanager
def _mounting(
    source: list[str | Path],
    folder: Path,
    options: Sequence[str | Path],
    state: Path,
    uid: int | None,
    forwarders: list[Running],
) -> Iterator[Mount]:
    runtime = _runtime(state, uid)
    said_to = state / f"mount-{len(list(state.glob('mount-*.said')))}.said"
    running = start("mount", *source, folder, "--foreground", *options, said_to=said_to, runtime=runtime, uid=uid)
    mount = Mount(running.process, said_to, folder, runtime, uid, forwarders)
    try:
        mount.wait_for("mounted on")
        if uid is None or os.geteuid() == uid:  # nobody else may look into an ordinary user's mount
            assert probe_mount_folder(str(folder), within_s=DEADLINE_S) == 0, mount.said()
        yield mount
    finally:
        _end(mount)
        take_off(folder)


def _runtime(state: Path, uid: int | None) -> Path:
    runtime = state / "runtime"
    if not runtime.is_dir():
        runtime.mkdir(mode=0o700)
        if uid is not None:
            os.chown(runtime, uid, uid)
    return runtime


def _end(running: Running) -> None:
    """SIGTERM, then kill -9."""
    try:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(60)
    except subprocess.TimeoutExpired:
        if isinstance(running, Mount):
            take_off(running.folder)  # frees a process that waits for it
        running.kill()


def _command(arguments: Sequence[str | Path], uid: int | None) -> list[str]:
    words = [str(word) for word in arguments]
    if uid is None or uid == os.geteuid():
        return [sys.executable, "-m", "fairlead", *words]
    return [sys.executable, str(Path(__file__).with_name("as_user.py")), str(uid), *words]
