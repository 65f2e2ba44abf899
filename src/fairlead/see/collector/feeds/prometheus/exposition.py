"""A page of an exporter (Prometheus text format, OpenMetrics): series and values, line by line, forgiving and fast.

Not here: fetching it (`scrape`), what a series means (`mapping`). A series is given as the text it is written with: on
the next page it is the same text, so that labels are taken apart once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*$")


class Page:
    """Lines of one page. `strange` counts those that were not understood; `example` is the first of them."""

    def __init__(self, text: str) -> None:
        self.strange = 0
        self.example = ""
        self._text = text

    def read_values(self) -> Iterator[tuple[str, float, int | None]]:
        """Series as written (`name` or `name{labels}`), value, and milliseconds since the epoch where the page says."""
        for line in self._text.split("\n"):
            if not line or line[0] == "#":
                continue
            at = line.find(" # {")
            given = line if at < 0 else line[:at]
            end = given.rfind("}")
            if end < 0:
                series, _, rest = given.strip().partition(" ")
                words = rest.split()
            else:
                series, words = given[: end + 1].strip(), given[end + 1 :].split()
            try:
                value = float(words[0])
                stamp = _milliseconds(words[1]) if len(words) > 1 else None
            except (IndexError, ValueError, OverflowError):
                self._unknown(line)
                continue
            if len(words) > 2:
                self._unknown(line)
                continue
            yield series, value, stamp

    def _unknown(self, line: str) -> None:
        if line.strip():
            self.strange += 1
            self.example = self.example or line.strip()[:120]


def parse_exposition_labels(series: str) -> dict[str, str] | None:
    """Labels of a series as written, `__name__` among them; None when it is malformed."""
    name, brace, rest = series.partition("{")
    name = name.strip()
    if not _NAME.match(name):
        return None
    labels = {"__name__": name}
    if not brace:
        return labels
    if not rest.endswith("}"):
        return None
    inner = rest[:-1].strip()
    at = 0
    while at < len(inner):
        match = _LABEL.match(inner, at)
        if match is None:
            return None
        labels[match.group(1)] = _plain(match.group(2))
        at = match.end()
    return labels


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match.group(1) == "n" else match.group(1), text)


def _milliseconds(text: str) -> int:
    """Prometheus writes milliseconds, OpenMetrics seconds with a fraction."""
    if text.lstrip("+-").isdigit() and len(text) >= 12:
        return int(text)
    return round(float(text) * 1000)
