"""Contenders of benchmarks/forwarding.py as real processes: a raw folder, the C example of libfuse, mounts of fairlead.

Not here: the load (`_load.py`) and the table.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
"""Debian and Ubuntu ship the C peer with libfuse3-dev (sometimes gzipped)."""
FAIRLEAD = [sys.executable, "-m", "fairlead"]
DEADLINE_S = 30


class Contender:
    """A folder to put load on, and the processes behind it."""

    def __init__(self, name: str, folders: Sequence[Path]) -> None:
        self.name = name
        self.folders = list(folders)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.mounted: list[Path] = []

    def folder(self, index: int) -> Path:
        """Where load process `index` works: its own mount if the contender has several."""
        return self.folders[index % len(self.folders)]

    def cpu_s(self) -> float:
        """Processor seconds the processes behind it have used."""
        tick = os.sysconf("SC_CLK_TCK")
        total = 0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / tick

    def peak_bytes(self) -> int:
        """Sum of the largest resident sizes of the processes behind it."""
        total = 0
        for process in self.processes:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    total += int(line.split()[1]) * 1024
        return total

    def pin(self, cores: set[int]) -> None:
        """Pins every thread of every process behind it."""
        for process in self.processes:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), cores)

    def start(self, command: Sequence[str | Path], log: Path) -> None:
        """Starts one process of it."""
        with log.open("ab") as stream:
            process = subprocess.Popen([str(word) for word in command], stdout=stream, stderr=stream)
        self.processes.append(process)

    def wait_for_mount(self, folder: Path, log: Path) -> None:
        """Returns when `folder` is a mount; SystemExit with the log's end when it does not become one."""
        end = time.monotonic() + DEADLINE_S
        while not os.path.ismount(folder):
            if time.monotonic() > end or any(process.poll() is not None for process in self.processes):
                raise SystemExit(f"{self.name} did not mount {folder}:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)
        self.mounted.append(folder)

    def stop(self) -> None:
        """Unmounts and ends everything."""
        for folder in self.mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def raw(source: Path) -> Contender:
    """The folder itself."""
    return Contender("raw", [source])


def c_mount(source: Path, work: Path) -> Contender | None:
    """libfuse's passthrough_ll (C, multi-threaded, cache=auto); None where it cannot be built."""
    gcc = shutil.which("gcc")
    text = EXAMPLE if EXAMPLE.exists() else EXAMPLE.with_suffix(".c.gz")
    if gcc is None or not text.exists():
        return None
    program = work / "passthrough_ll"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False)
    options = flags.stdout.split() if flags.returncode == 0 else ["-I/usr/include/fuse3", "-lfuse3", "-lpthread"]
    build = subprocess.run(
        [gcc, "-O2", "-D_FILE_OFFSET_BITS=64", str(text), "-o", str(program), *options],
        capture_output=True,
        check=False,
    )
    if build.returncode:
        return None
    folder = _made(work / "c")
    contender = Contender("C passthrough_ll", [folder])
    log = work / "c.log"
    contender.start([program, "-f", "-o", f"source={source},cache=auto", folder], log)
    contender.wait_for_mount(folder, log)
    return contender


def local(source: Path, work: Path, *, passthrough: bool) -> Contender:
    """A mount of fairlead without a forwarder."""
    name = "passthrough" if passthrough else "local"
    folder = _made(work / name)
    contender = Contender(f"fairlead {name}", [folder])
    log = work / f"{name}.log"
    way = "auto" if passthrough else "off"
    contender.start(
        [
            *FAIRLEAD,
            "mount",
            "--local",
            source,
            folder,
            "--foreground",
            "--passthrough",
            way,
            "--spool",
            work / "spool",
        ],
        log,
    )
    contender.wait_for_mount(folder, log)
    return contender


def forwarded(source: Path, work: Path, *, tcp: bool, mounts: int = 1) -> Contender:
    """`mounts` mounts of fairlead through one forwarder."""
    name = ("TCP" if tcp else "unix") + (f", {mounts} mounts" if mounts > 1 else "")
    stem = name.replace(", ", "_").replace(" ", "_")
    address = f"tcp:127.0.0.1:{_free_port()}" if tcp else f"unix:{work / stem}.socket"
    folders = [_made(work / f"{stem}.{number}") for number in range(mounts)]
    contender = Contender(f"fairlead {name}", folders)
    log = work / f"{stem}.log"
    spool = work / "spool"
    contender.start([*FAIRLEAD, "forwarder", "run", "--export", source, "--listen", address, "--spool", spool], log)
    end = time.monotonic() + DEADLINE_S
    while b"ready" not in log.read_bytes():
        if time.monotonic() > end or contender.processes[0].poll() is not None:
            raise SystemExit(f"the forwarder did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)
    for folder in folders:
        contender.start([*FAIRLEAD, "mount", address, folder, "--foreground", "--spool", spool], log)
        contender.wait_for_mount(folder, log)
    return contender


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
