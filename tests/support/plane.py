"""Forwarders and mounts as processes of their own, for the tests of this folder."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from waiting import PATIENCE_S
from waiting import wait_until as until

DEADLINE_S = PATIENCE_S
WORKER = Path(__file__).with_name("journal_worker.py")


def names(folder: Path) -> list[str]:
    """Names in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Plane:
    """A tree, forwarders by name, and one or more mounts. Ends all of it, whatever happened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.forwarders: dict[str, subprocess.Popen[bytes]] = {}
        self.mounts: dict[Path, subprocess.Popen[bytes]] = {}
        self._points: list[Path] = []
        self._files: list[IO[bytes]] = []
        run = folder / "run"
        run.mkdir(mode=0o700)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(run)}

    def _start(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        file = (self.folder / log).open("ab")
        self._files.append(file)
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=self.environment,
        )

    def address(self, name: str) -> str:
        """Where a forwarder listens."""
        return f"unix:{self.folder / name}.sock"

    def forwarder(self, name: str, *options: str) -> None:
        """Starts a forwarder (again) and waits until it is ready."""
        log = self.folder / f"{name}.log"
        before = log.read_text().count("ready") if log.exists() else 0
        process = self._start(
            log.name,
            "forwarder",
            "run",
            "--export",
            str(self.tree),
            "--listen",
            self.address(name),
            "--name",
            name,
            *options,
        )
        self.forwarders[name] = process
        until(lambda: log.read_text().count("ready") > before or process.poll() is not None, f"{name} is ready")
        assert process.poll() is None, log.read_text()

    def kill_forwarder(self, name: str) -> None:
        """kill -9."""
        process = self.forwarders.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def mount(self, name: str, *addresses: str, options: tuple[str, ...] = ()) -> Path:
        """Mounts and waits until the mount answers."""
        point = self.folder / name
        point.mkdir(exist_ok=True)
        log = self.folder / f"{name}.log"
        wanted = [",".join(addresses)] if addresses else []
        process = self._start(log.name, "mount", "--foreground", *options, *wanted, str(point))
        self.mounts[point] = process
        self._points.append(point)
        device = self.folder.stat().st_dev

        def mounted() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return point.stat().st_dev != device
            except OSError:  # it ends; the log says why
                return False

        until(mounted, "the mount answers")
        return point

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a fairlead command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "fairlead.cli.main", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def status(self, point: Path) -> dict[str, Any]:
        """What the mount says of itself."""
        done = self.command("mount", "--list", "--json")
        assert done.returncode == 0, done.stderr
        for mount in json.loads(done.stdout)["mounts"]:
            if mount["mountpoint"] == str(point):
                return dict(mount["status"] or {})
        raise AssertionError(f"{point} is not listed: {done.stdout}")

    def serving(self, point: Path) -> str:
        """Name of the forwarder that serves a mount."""
        address = str(self.status(point)["forwarder"])
        return Path(address.removeprefix("unix:")).stem

    def close(self) -> None:
        """Ends every process and mount that is left."""
        for process in self.mounts.values():
            if process.poll() is None:
                process.terminate()
        for process in self.mounts.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for point in self._points:
            detach(point)
        for process in self.forwarders.values():
            process.kill()
            process.wait()
        for file in self._files:
            file.close()


def detach(point: Path) -> None:
    """Takes off what a killed mount process left."""
    for command in (["umount", "-l", str(point)], ["fusermount3", "-u", "-z", str(point)]):
        if str(point) in Path("/proc/self/mounts").read_text():
            subprocess.run(command, check=False, capture_output=True)


class Workers:
    """Processes that work in a mount and check what they did (`journal_worker`)."""

    def __init__(self, folder: Path, point: Path, count: int) -> None:
        self._counters = [folder / f"counter{number}" for number in range(count)]
        self._processes = [
            subprocess.Popen(
                [sys.executable, str(WORKER), str(point / f"w{number}"), str(number + 1), str(counter)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number, counter in enumerate(self._counters)
        ]

    def done(self) -> list[int]:
        """Operations each has finished."""
        counts = []
        for counter in self._counters:
            content = counter.read_bytes() if counter.exists() else b""
            counts.append(struct.unpack("<Q", content)[0] if len(content) == 8 else 0)
        return counts

    def advance(self, by: int) -> None:
        """Waits until every process has done that many operations more, or one has ended."""
        before = self.done()

        def advanced() -> bool:
            if any(process.poll() is not None for process in self._processes):
                return True
            return all(now >= then + by for now, then in zip(self.done(), before, strict=True))

        until(advanced, f"{by} operations more of each")

    def finish(self) -> tuple[int, list[str]]:
        """Ends the work; operations done in all, and what went wrong."""
        total, problems = 0, []
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for number, process in enumerate(self._processes):
            assert process.stdout is not None
            assert process.stderr is not None
            with process.stdout, process.stderr:
                output, errors = process.stdout.read(), process.stderr.read()
            process.wait(timeout=DEADLINE_S)
            if process.returncode:
                problems.append(f"worker {number}: {errors}")
                continue
            told = json.loads(output)
            total += told["operations"]
            problems += [f"worker {number}: {problem}" for problem in told["problems"]]
        return total, problems

    def kill(self) -> None:
        """Ends them at once."""
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
