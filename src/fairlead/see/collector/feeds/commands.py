"""Runs a site's command for a feed: output into a file, a deadline, no shell, and an error that says what it said.

Not here: what the output means.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlead.core import clock
from fairlead.core.errors import FairleadError, InputError, MissingDependencyError

_STEP_S = 0.2
MOST_BYTES = 2 << 30
"""Of output: a site's whole queue as JSON has a few hundred MB."""


def run_feed_command(
    command: Sequence[str],
    folder: Path,
    stop: threading.Event,
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Path of a file in `folder` with the command's output; the caller removes it.

    Raises MissingDependencyError when there is no such program, InputError when it fails, takes too long, or the
    collector ends.
    """
    where = " ".join(command)
    handle, name = tempfile.mkstemp(prefix="answer-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, tempfile.TemporaryFile() as said:
            try:
                child = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=said,
                    start_new_session=True,
                    env={**os.environ, **(environment or {})},
                )
            except OSError as fault:
                raise MissingDependencyError(
                    f"{command[0]} cannot be run: {fault.strerror}",
                    where=where,
                    remedy="give its full path in the feed's settings",
                ) from fault
            fault_text = _wait(child, path, stop, timeout_s)
            said.seek(0)
            words = said.read(2000).decode("utf-8", "replace").strip().partition("\n")[0]
        if fault_text or child.returncode != 0:
            raise InputError(
                f"{fault_text or f'it ended with {child.returncode}'}{f': {words}' if words else ''}",
                where=where,
                remedy="run it manually as the collector's user",
            )
    except FairleadError:
        path.unlink(missing_ok=True)
        raise
    return path


def _wait(child: subprocess.Popen[bytes], path: Path, stop: threading.Event, timeout_s: float) -> str:
    """Waits for the end; what went wrong, or nothing."""
    until = clock.monotonic_s() + timeout_s
    while True:
        try:
            child.wait(_STEP_S)
        except subprocess.TimeoutExpired:
            pass
        else:
            return ""
        if stop.is_set():
            why = "the collector is stopping"
        elif clock.monotonic_s() > until:
            why = f"no response within {timeout_s:g} s"
        elif path.stat().st_size > MOST_BYTES:
            why = "more than 2 GiB of output"
        else:
            continue
        child.kill()
        child.wait()
        return why
