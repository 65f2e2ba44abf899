"""collectd documents kept in Elasticsearch (pages of hits as JSON): disk traffic of burst-buffer and other nodes.

Not here: collectd's own network protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.errors import CorruptInputError, InputError
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import DEVICE, build_table_batch
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.see.sources.base import Item
from fairlead.see.sources.line_blocks import read_block_chunks

_COLLECTD = re.compile(rb'"collectd_type"\s*:')
_MOST_BYTES = 1 << 30
_LONGEST_S = 86_400
_COLUMNS = {"disk_octets": ("read_bytes", "write_bytes"), "disk_ops": ("read_ops", "write_ops")}


class _Document(msgspec.Struct):
    plugin: str | None = None
    collectd_type: str | None = None
    hostname: str | None = None
    plugin_instance: str | None = None
    stamp: str | None = msgspec.field(name="@timestamp", default=None)
    read: float | None = None
    write: float | None = None


class _Hit(msgspec.Struct):
    source: _Document = msgspec.field(name="_source")


class CollectdSource:
    """`Source` of such pages: a list of hits, or a list of such lists, or a search's answer."""

    name = "collectd"

    def accepts(self, head: bytes, path: Path) -> bool:  # noqa: ARG002
        """Whether the content is JSON of Elasticsearch hits with collectd's fields."""
        return head.lstrip()[:1] in (b"[", b"{") and b'"_source"' in head and _COLLECTD.search(head) is not None

    def read(self, path: Path) -> Iterator[Item]:
        """`device` rows. collectd keeps rates: a row's bytes are the rate times collectd's interval. Raises
        InputError, CorruptInputError."""
        where = str(path)
        documents = _documents(path)
        rows = _Columns()
        other = 0
        for document in documents:
            other += not rows.take(document)
        yield from rows.batches(where)
        if other:
            yield Missing(
                kind="not_kept",
                what=f"{other} documents",
                why="they are not about disk traffic, or lack a field",
                where=where,
            )


def _documents(path: Path) -> list[_Document]:
    where = str(path)
    pieces: list[bytes] = []
    size = 0
    for chunk in read_block_chunks(path):
        if isinstance(chunk, str):
            raise CorruptInputError(f"its gzip data is broken ({chunk})", where=where, remedy="copy it again")
        size += len(chunk)
        if size > _MOST_BYTES:
            raise InputError("more than 1 GiB of JSON in one file", where=where, remedy="keep fewer pages in a file")
        pieces.append(chunk)
    try:
        return [hit.source for hit in _hits(b"".join(pieces))]
    except msgspec.MsgspecError as fault:
        raise CorruptInputError(
            f"not the JSON of Elasticsearch hits ({fault})", where=where, remedy="write the file again"
        ) from fault


def _hits(data: bytes) -> list[_Hit]:
    try:
        return [hit for page in msgspec.json.decode(data, type=list[list[_Hit]]) for hit in page]
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.json.decode(data, type=list[_Hit])
    except msgspec.ValidationError:
        pass
    answer = msgspec.json.decode(data, type=dict[str, Any])
    return msgspec.convert(answer.get("hits", {}).get("hits", []), list[_Hit])


class _Columns:
    """The documents as columns, by what they count."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[str, str, str, float, float]]] = {name: [] for name in _COLUMNS}

    def take(self, document: _Document) -> bool:
        """Whether the document counts a disk's traffic."""
        rows = self._rows.get(document.collectd_type or "")
        texts = (document.stamp, document.hostname, document.plugin_instance)
        if rows is None or not all(texts) or document.read is None or document.write is None:
            return False
        rows.append((*texts, document.read, document.write))  # type: ignore[arg-type]
        return True

    def batches(self, where: str) -> Iterator[Item]:
        """A batch for each kind that is there."""
        for kind, rows in self._rows.items():
            if rows:
                yield from _kind(rows, _COLUMNS[kind], where)


def _kind(rows: list[tuple[str, str, str, float, float]], names: tuple[str, str], where: str) -> Iterator[Item]:
    stamps, nodes, devices, reads, writes = zip(*rows, strict=True)
    ns = _utc_ns(stamps)
    node, device = (pa.array(column, pa.string()).dictionary_encode() for column in (nodes, devices))
    series = np.asarray(node.indices, np.int64) << 32 | np.asarray(device.indices)
    interval = _interval_ns(series, ns)
    known = (ns > 0) & (interval > 0)
    if not known.all():
        yield Missing(
            kind="no_interval",
            what=f"the bytes of {int((~known).sum())} documents",
            why="collectd keeps rates, and one sample of a device does not give its interval",
            where=where,
        )
    at = pa.array(np.flatnonzero(known))
    seconds = interval[known] / NS_PER_S
    amounts = {
        name: np.rint(np.asarray(values)[known] * seconds).astype(np.int64)
        for name, values in zip(names, (reads, writes), strict=True)
    }
    yield build_table_batch(
        DEVICE,
        {
            "ts_ns": ns[known],
            "interval_ns": interval[known],
            "node": node.take(at),
            "device": device.take(at),
            **amounts,
        },
    )


def _utc_ns(stamps: tuple[str, ...]) -> NDArray[np.int64]:
    """ISO times ending in Z as epoch ns; 0 for what is none."""
    texts = pc.replace_substring_regex(pa.array(stamps), r"Z$", "")
    whole = pc.utf8_slice_codeunits(texts, 0, 19)
    seconds = pc.strptime(whole, format="%Y-%m-%dT%H:%M:%S", unit="s", error_is_null=True).cast(pa.int64())
    rest = pc.utf8_slice_codeunits(texts, 19, 29)
    fraction = pc.if_else(
        pc.match_substring_regex(rest, r"^\.[0-9]+$"), pc.binary_join_element_wise("0", rest, ""), "0"
    )
    ns = np.rint(np.asarray(fraction.cast(pa.float64())) * NS_PER_S).astype(np.int64)
    known = np.asarray(seconds.is_valid())
    return np.where(known, np.asarray(seconds.fill_null(0)) * NS_PER_S + ns, 0)


def _interval_ns(series: NDArray[np.int64], ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The commonest distance of two samples of one device, in whole seconds, for each sample; 0 is unknown.

    collectd has one interval for all. A longer distance is a gap, which is not filled: nothing is known of it."""
    order = np.lexsort((ns, series))
    s, t = series[order], ns[order]
    steps = np.rint((t[1:] - t[:-1])[s[1:] == s[:-1]] / NS_PER_S).astype(np.int64)
    steps = steps[(steps > 0) & (steps < _LONGEST_S)]
    usual = int(np.bincount(steps).argmax()) * NS_PER_S if len(steps) else 0
    return np.full(len(series), usual)
