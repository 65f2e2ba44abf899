"""The texts of `lfs df`, `lfs df -i` and `lctl dl -t`: how full each Lustre target is, and which server serves it.

Not here: running the commands. Python 3.6, standard library only.
"""

import re
from typing import Iterable, Iterator, NamedTuple, Optional, Union

_TARGET = re.compile(
    r"(\S+)_UUID\s+(\d+)\s+(-?\d+)\s+(-?\d+)\s+(?:\d+%|-)\s+(\S+?)(?:\[(MDT|OST):([0-9a-fA-F]+)\])?\s*([a-zA-Z]*)\s*$"
)
_AWAY = re.compile(r"(\S+)_UUID\s*:\s*(.+?)\s*$")
_HEADER = re.compile(r"UUID\s+(1K-blocks|Inodes|bytes)\b")
_BEGIN = re.compile(r"BEGIN (\d{1,12})\s*$")
_DEVICE = re.compile(r"\s*\d+ ([A-Z]+) (\w+) (\S+) (\S+) \d+(?: (\S+@\S+))?\s*$")
_CLIENT = re.compile(r"(.+)-(?:osc|mdc)-(?:ffff)?[0-9a-fA-F]+$")


class Space(NamedTuple):
    """How full one target is. `inodes`: the numbers are inodes, not bytes."""

    at_s: Optional[int]
    """Seconds since 1970 of the `BEGIN` line before it; None where there is none."""
    target: str
    mount: str
    inodes: bool
    total: int
    used: int
    available: int


class Away(NamedTuple):
    """A target that did not answer, and what `lfs df` says of it."""

    at_s: Optional[int]
    target: str
    why: str


class Device(NamedTuple):
    """A client's device for one target (`osc`, `mdc`): its state and the server it talks to."""

    target: str
    state: str
    server: str


Line = Union[Space, Away, Device]


class Parser:
    """Reads such texts, one after the other in any order. `unknown` counts lines that were not understood."""

    def __init__(self) -> None:
        self.unknown = 0
        self.unknown_example = ""
        self._at_s: Optional[int] = None
        self._inodes = False

    def parse_lines(self, lines: Iterable[str]) -> Iterator[Line]:
        """What the lines tell, in their order; summaries over targets and devices of no target are passed over."""
        for line in lines:
            if not line.strip() or line.startswith("filesystem"):
                continue
            found = self._line(line)
            if found is not None:
                yield found

    def _line(self, line: str) -> Optional[Line]:
        match = _TARGET.match(line)
        if match is not None:
            scale = 1 if self._inodes else 1024
            total, used, available = (int(match.group(i)) * scale for i in (2, 3, 4))
            return Space(self._at_s, match.group(1), match.group(5), self._inodes, total, used, available)
        header = _HEADER.match(line)
        if header is not None:
            self._inodes = header.group(1) == "Inodes"
            return None
        begin = _BEGIN.match(line)
        if begin is not None:
            self._at_s = int(begin.group(1))
            return None
        away = _AWAY.match(line)
        if away is not None:
            return Away(self._at_s, away.group(1), away.group(2))
        return self._device(line)

    def _device(self, line: str) -> Optional[Line]:
        match = _DEVICE.match(line)
        if match is None:
            self.unknown += 1
            self.unknown_example = self.unknown_example or line.strip()[:120]
            return None
        client = _CLIENT.match(match.group(3)) if match.group(2) in ("osc", "mdc") else None
        if client is None or match.group(5) is None:
            return None
        return Device(client.group(1), match.group(1), match.group(5))
