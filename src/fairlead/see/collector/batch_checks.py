"""The bytes of a request as batches that may be taken: held against their sums, their tables and their sender.

All or none: the first that does not hold refuses the whole body. Not here: what the lake refuses (`store.writer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from fairlead.core.batches.encoding import Header
from fairlead.core.batches.rows import DecodedBatch, decode_batch_rows
from fairlead.core.errors import (
    InputError,
)
from fairlead.see.collector.refusal import Refusal, build_refusal, find_refusal_status

MAX_BATCHES = 20_000
MADE_HERE = frozenset({"rollup", "job_summary", "op_groups"})
"""Tables that are made of others: nobody sends them."""
NOT_OF_A_NODE = frozenset({"jobs"})
"""Tables whose rows say who may see what: a node's own token does not send them, schedulers and operators do."""
_NAME_LONG = 255
_BREAKS = frozenset("/\x00\n\r")


def check_batches(body: bytes, *, raw_bytes: int, node: str) -> list[DecodedBatch]:
    """The batches of a body, at least one. `node`: the only one its sender may speak for; empty: any. They unpack to
    `raw_bytes` at most. Raises Refusal 400, 403, 413, 422, 426."""
    try:
        found = decode_batch_rows(body, limit=raw_bytes)
    except InputError as error:
        raise build_refusal(error, find_refusal_status(error)) from error
    except (pa.ArrowException, KeyError, ValueError, OverflowError) as error:
        raise Refusal(422, f"a batch does not fit its table: {str(error).splitlines()[0]}") from error
    if not found:
        raise Refusal(400, "the body is empty", remedy="send at least one batch")
    if len(found) > MAX_BATCHES:
        raise Refusal(413, f"more than {MAX_BATCHES} batches", remedy="send fewer at a time")
    for one in found:
        header = one.header
        if not all(map(_is_name, (header.node, header.boot_id, header.table))):
            raise Refusal(
                400, "the name of a batch is invalid: node, boot_id and table have 1 to 255 letters, no slash"
            )
        if node and header.node != node:
            raise Refusal(403, f"the token is for {node}", where=one.stream, remedy="give each node its own token")
        if header.table in MADE_HERE:
            raise Refusal(422, f"rows of {header.table} are made by the server", where=one.stream)
        if node and header.table in NOT_OF_A_NODE:
            raise Refusal(403, f"a node does not send {header.table}", where=one.stream, remedy="feed them: [feeds]")
    return found


def check_batch_sender(header: Header, node: str) -> bool:
    """Whether the names of a batch are names, and of `node` (empty: any), and its table is one that is sent."""
    named = (not node or header.node == node) and _is_name(header.node) and _is_name(header.boot_id)
    return named and header.table not in MADE_HERE and not (node and header.table in NOT_OF_A_NODE)


def split_checked_batches(
    body: bytes, found: Sequence[DecodedBatch]
) -> tuple[memoryview, list[DecodedBatch], list[DecodedBatch]]:
    """Batches of known tables, told apart from those of unknown ones, and a body of the known ones alone."""
    known = [one for one in found if one.rows is not None]
    if len(known) == len(found):
        return memoryview(body), known, []
    at, moved = 0, []
    for one in known:
        moved.append(replace(one, begin=at, end=at + one.end - one.begin))
        at = moved[-1].end
    data = b"".join(body[one.begin : one.end] for one in known)
    return memoryview(data), moved, [one for one in found if one.rows is None]


@lru_cache(maxsize=1 << 13)
def _is_name(value: str) -> bool:
    if not 0 < len(value) <= _NAME_LONG or _BREAKS & set(value):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
