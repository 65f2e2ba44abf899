"""Which metric is which column: the table `metrics.toml` and a site's own, and where one series belongs by its labels.

Not here: values (`assembly`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from fairlead.core.errors import ConfigError
from fairlead.core.model.tables import TABLES

FREE = {"free_bytes": ("used_bytes", "capacity_bytes"), "inodes_free": ("inodes_used", "inodes")}
"""Columns no table has: what is free becomes what is used, where the whole is known."""
_INSTANCE = "instance"
_MOST_THINGS = 1_000_000


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the table (see `metrics.toml`)."""

    name: str
    table: str
    column: str
    kind: Literal["counter", "gauge"] = "counter"
    factor: float = 1.0
    keys: dict[str, str | list[str]]
    set: dict[str, str] = {}
    where: dict[str, str | list[str]] = {}
    born: bool = False

    def fits(self, labels: dict[str, str]) -> bool:
        """Whether the series has the labels this entry is for."""
        for name, wanted in self.where.items():
            value = labels.get(name)
            if value != wanted and not (isinstance(wanted, list) and value in wanted):
                return False
        return True


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metric: list[Metric] = []
    ignore: list[str] = []


class Thing:
    """What rows are about: their table, and the columns that name it. There is one of each, told by its identity."""

    __slots__ = ("names", "table")

    def __init__(self, table: str, names: dict[str, str]) -> None:
        self.table = table
        self.names = names


@dataclass(frozen=True)
class Place:
    """Where the samples of one series go."""

    metric: Metric
    thing: Thing
    instance: str


class Mapping:
    """The entries by metric."""

    def __init__(self, entries: list[Metric], ignore: list[str]) -> None:
        self._by_name: dict[str, list[Metric]] = {}
        for entry in entries:
            self._by_name.setdefault(entry.name, []).append(entry)
        self._ignore = tuple(ignore)
        self._things: dict[tuple[object, ...], Thing] = {}

    def is_ignored(self, name: str) -> bool:
        """Whether a metric is known to hold nothing that is kept."""
        return name.startswith(self._ignore) or (name in self._by_name)

    def place(self, labels: dict[str, str], node: str = "") -> Place | None:
        """Where a series goes; None: nowhere. `node` stands for the label `instance` where there is none."""
        entry = next((one for one in self._by_name.get(labels.get("__name__", ""), ()) if one.fits(labels)), None)
        if entry is None:
            return None
        instance = _host(labels.get(_INSTANCE, "")) or node
        names: dict[str, str] = {}
        for column, label in entry.keys.items():
            given = [instance if name == _INSTANCE else labels.get(name, "") for name in _list(label)]
            text = "/".join(part for part in given if part)
            if text:
                names[column] = _fs(text) if column == "fs" else text
        names |= entry.set
        key = (entry.table, *sorted(names.items()))
        thing = self._things.get(key)
        if thing is None:
            if len(self._things) >= _MOST_THINGS:
                self._things.clear()
            thing = self._things[key] = Thing(entry.table, names)
        return Place(entry, thing, instance)


def load_mapping(path: str = "") -> Mapping:
    """The built-in table, with a site's entries before it. Raises ConfigError."""
    own = _checked(_decoded(Path(path).read_bytes(), path), path) if path and _readable(path) else _File()
    built_in = _built_in()
    return Mapping([*own.metric, *built_in.metric], [*own.ignore, *built_in.ignore])


@cache
def _built_in() -> _File:
    name = "metrics.toml"
    data = files("fairlead.see.collector.feeds.prometheus").joinpath(name).read_bytes()
    return _checked(_decoded(data, name), name)


def _readable(path: str) -> bool:
    if not Path(path).is_file():
        raise ConfigError("no such file", where=path, remedy="correct `load_mapping` of [feeds.remote_write]")
    return True


def _decoded(data: bytes, where: str) -> _File:
    try:
        return msgspec.toml.decode(data, type=_File)
    except msgspec.MsgspecError as fault:
        raise ConfigError(f"not a table of metrics: {fault}", where=where, remedy="see docs: Prometheus") from fault


def _checked(found: _File, where: str) -> _File:
    for entry in found.metric:
        spec = TABLES.get(entry.table)
        if spec is None:
            raise ConfigError(f"{entry.name}: no table {entry.table!r}", where=where, remedy="see the records' page")
        columns = {*entry.keys, *entry.set, *([] if entry.column in FREE else [entry.column])}
        strange = sorted(columns - set(spec.schema.names))
        if strange:
            raise ConfigError(
                f"{entry.name}: {entry.table} has no column {strange[0]!r}", where=where, remedy="see the records' page"
            )
    return found


def _list(label: str | list[str]) -> list[str]:
    return label if isinstance(label, list) else [label]


def _host(instance: str) -> str:
    """`oss1.site:32221` and `[::1]:9100` without their port."""
    host, colon, port = instance.rpartition(":")
    return (host if colon and port.isdigit() and not host.endswith(":") else instance).strip("[]")


def _fs(target: str) -> str:
    """`lustrefs-ffff88105db50000` is a mount of `lustrefs`."""
    name, dash, rest = target.rpartition("-")
    return name if dash and len(rest) >= 8 and all(c in "0123456789abcdef" for c in rest) else target
