"""The text of `lfs getstripe` (Lustre 2.5 to 2.16): which targets hold which part of a file.

Plain and composite (PFL) layouts, `-v` and not. Not here: running the command. Python 3.6, standard library only.
"""

import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

_VALUE = re.compile(r"\s*(?:-\s+\d+:\s*)?(lc(?:m|me)_[\w.]+|lmm_\w+)\s*:\s*(.*?)\s*$")
_OBJECT = re.compile(r"\s*-\s*\d+:\s*\{\s*l_ost_idx:\s*(\d+)\b.*\}\s*$")
_COLUMNS = re.compile(r"\s+obdidx\s+objid\s+")
_OLD_OBJECT = re.compile(r"\s+(\d+)\s+\d+\s+0x[0-9a-fA-F]+\s+\S+(?:\s+\*)?\s*$")
_DIRECTORY = re.compile(r"\s*(?:stripe_count|lmv_\w+):\s+")
_PASSED = re.compile(r"\s*(?:mdtidx|has no stripe info|.* has no stripe info$)")


class Component(NamedTuple):
    """A part of a file. `extent_end` None: to its end. `targets`: numbers of its OSTs, in the order of its stripes;
    none where nothing was written yet."""

    extent_start: int
    extent_end: Optional[int]
    stripe_size: Optional[int]
    stripe_count: Optional[int]
    pool: Optional[str]
    pattern: Optional[str]
    targets: Tuple[int, ...]


class StripedFile(NamedTuple):
    """A file and its components, in order."""

    path: str
    components: Tuple[Component, ...]


class Parser:
    """Reads such texts. `unknown` counts lines that were not understood. Files of several mirrors: the first only."""

    def __init__(self) -> None:
        self.unknown = 0
        self.unknown_example = ""
        self._path = ""
        self._values: Dict[str, str] = {}
        self._targets: List[int] = []
        self._components: List[Component] = []
        self._mirror = ""

    def parse_files(self, lines: Iterable[str]) -> Iterator[StripedFile]:
        """Files in the order of the text; directories and files without objects or extents are passed over."""
        for line in lines:
            line = line.rstrip("\r\n")
            if line.startswith("/"):
                found = self._end()
                if found is not None:
                    yield found
                self._path = line
            else:
                self._line(line)
        found = self._end()
        if found is not None:
            yield found

    def _line(self, line: str) -> None:
        if not line.strip() or _COLUMNS.match(line) or _DIRECTORY.match(line) or _PASSED.match(line):
            return
        item = _OBJECT.match(line) or _OLD_OBJECT.match(line)
        if item is not None:
            self._targets.append(int(item.group(1)))
            return
        value = _VALUE.match(line)
        if value is None:
            self.unknown += 1
            self.unknown_example = self.unknown_example or line.strip()[:120]
            return
        name, text = value.group(1), value.group(2)
        if name == "lcme_id":
            self._component()
        self._values[name] = text

    def _component(self) -> None:
        values, targets = self._values, tuple(self._targets)
        mirror = values.get("lcme_mirror_id", "")
        if "lmm_stripe_size" in values or targets:
            first = not self._components or mirror in ("", self._mirror)
            self._mirror = mirror if not self._components else self._mirror
            if first:
                self._components.append(
                    Component(
                        _number(values.get("lcme_extent.e_start")) or 0,
                        _number(values.get("lcme_extent.e_end")),
                        _number(values.get("lmm_stripe_size")),
                        _number(values.get("lmm_stripe_count")),
                        values.get("lmm_pool") or None,
                        values.get("lmm_pattern") or None,
                        targets,
                    )
                )
        self._values, self._targets = {}, []

    def _end(self) -> Optional[StripedFile]:
        self._component()
        path, components = self._path, tuple(self._components)
        self._path, self._components, self._mirror = "", [], ""
        return StripedFile(path, components) if path and components else None


def _number(text: Any) -> Optional[int]:
    """A whole number; None for EOF, -1 (all) and what is none."""
    try:
        value = int(text, 0)
    except (TypeError, ValueError):
        return None
    return value if value >= 0 else None
