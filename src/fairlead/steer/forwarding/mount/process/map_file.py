"""A map file: which nodes mount from which forwarders. Lines of `NODES ADDRESS[,ADDRESS...]`; the first that names the
node counts. `NODES` is a host list with ranges and stars (`c[001-016],login*`), `*` every node; `#` begins a comment.
"""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.core.errors import ConfigError, UsageError
from fairlead.steer.fs.wire.address import parse_address

_RANGES = re.compile(r"\[([0-9,\-]+)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def read_map_file(path: Path, node: str) -> list[str]:
    """The forwarders of a node. Raises `ConfigError` for a file that is malformed, unreadable or does not name it."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        what = f"the map file cannot be read: {error.strerror}"
        raise ConfigError(what, where=str(path), remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", where=str(path), remedy="save it as UTF-8") from error
    short = node.partition(".")[0]
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise ConfigError(
                "not `NODES ADDRESS[,ADDRESS...]`", where=f"{path}:{number}", remedy="two words on each line"
            )
        where = f"{path}:{number}"
        if any(sign in _RANGES.sub("", words[0]) for sign in "[]"):
            raise ConfigError(f"invalid host list: {words[0]}", where=where, remedy="write ranges as c[001-016,020]")
        if _matches_node(words[0], node) or _matches_node(words[0], short):
            return _addresses(words[1], where)
    raise ConfigError(f"no line names this node, {node}", where=str(path), remedy="add one, or a last line for *")


def _addresses(text: str, where: str) -> list[str]:
    """The addresses of a line; an invalid one is reported with its line."""
    try:
        return [str(parse_address(address)) for address in text.split(",") if address]
    except UsageError as error:
        raise ConfigError(str(error.what), where=where, remedy=error.remedy) from error


def _matches_node(nodes: str, node: str) -> bool:
    """Whether a host list names the node."""
    return any(_fits(item, node) for item in _items(nodes))


def _items(nodes: str) -> list[str]:
    """Splits the list at commas outside brackets."""
    items, depth, start = [], 0, 0
    for at, sign in enumerate(nodes):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            items.append(nodes[start:at])
            start = at + 1
    return [item for item in [*items, nodes[start:]] if item]


def _fits(item: str, node: str) -> bool:
    ranges = _RANGES.findall(item)
    plain = [re.escape(part).replace(r"\*", ".*") for part in _RANGES.split(item)[::2]]
    found = re.fullmatch(r"(\d+)".join(plain), node)
    return found is not None and all(_within(text, number) for text, number in zip(ranges, found.groups(), strict=True))


def _within(ranges: str, number: str) -> bool:
    for piece in ranges.split(","):
        found = _RANGE.fullmatch(piece)
        if found is None:
            return False
        first, last = found[1], found[2] or found[1]
        padded = len(number) == len(first) or (len(number) > len(first) and number[0] != "0")
        if padded and int(first) <= int(number) <= int(last):
            return True
    return False
