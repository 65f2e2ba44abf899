"""Single keys from a terminal, without waiting for a line; the terminal is as before afterwards.

Also wakes on a resize. Not here: what a key does.
"""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import threading
import tty
from types import FrameType, TracebackType

_NAMES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page_up",
    b"\x1b[6~": "page_down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
}
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])")


class Keys:
    """Keys of the terminal open as a file descriptor, inside a `with`."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._before: list[object] | None = None
        self._woken: tuple[int, int] | None = None
        self._old_handler: object = None
        self._typed = b""

    def __enter__(self) -> Keys:
        self._before = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal, termios.TCSADRAIN)
        self._woken = os.pipe()
        os.set_blocking(self._woken[1], False)
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGWINCH, self._resized)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._old_handler is not None:
            signal.signal(signal.SIGWINCH, self._old_handler)  # type: ignore[arg-type]
        if self._woken is not None:
            for end in self._woken:
                os.close(end)
        if self._before is not None:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> str:
        """The next key (a character, or `up`, `down`, `page_up`, `page_down`, `home`), "resize", or "" after that time.
        A terminal that has gone is "q"."""
        assert self._woken is not None  # noqa: S101 (inside the with)
        if self._typed:
            return self._take()
        ready, _, _ = select.select([self._terminal, self._woken[0]], [], [], seconds)
        if self._woken[0] in ready:
            os.read(self._woken[0], 4096)
            return "resize"
        if not ready:
            return ""
        try:
            data = os.read(self._terminal, 16)
        except OSError:
            return "q"
        if not data:
            return "q"
        self._typed += data
        return self._take()

    def _take(self) -> str:
        """The first of the keys that came; "" for one without a name here."""
        match = _SEQUENCE.match(self._typed)
        key = match[0] if match is not None else self._typed[:1]
        self._typed = self._typed[len(key) :]
        return _NAMES.get(key, key.decode("ascii", "replace") if len(key) == 1 and key != b"\x1b" else "")

    def _resized(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._woken is not None:
            try:
                os.write(self._woken[1], b"w")
            except BlockingIOError:  # woken already
                return
