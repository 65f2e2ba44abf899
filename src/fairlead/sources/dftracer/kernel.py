"""The compiled scanner: blocks of event lines → rows of `layout`, without a Python object per line.

Imported only for large inputs. Lines it does not take are left as UNREAD rows for `lines.read_line`, which decides:
whatever is taken here means the same there. Positions in the text are addresses (see `memory`).
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairlead.sources.dftracer import layout as c
from fairlead.sources.dftracer.memory import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_number,
    trailing_zeros,
    word_at,
)
from fairlead.sources.dftracer.tokens import Tokens

ROWS = 60_000
"""Rows filled per call at most. Not a power of two: the columns of a row would compete for the same cache lines."""
BUFFERS = 3
"""Sets of rows used in turn: one being filled, one looked ahead at, one being converted."""
PADDING = b"\n" * 8
"""What must follow a block in memory, as it is read eight bytes at a time."""

_FULL = -2
_BAIL = -3

# Where `_scan` keeps its state: int64 slots of one array.
_TOKENS, _N_TOKENS, _ROW, _NEXT, _LINES, _WANTS_ROOM, _NUMBER, _META, _STATE_SIZE = 0, 0, 1, 2, 3, 4, 5, 6, 16
_ARENA, _ARENA_SIZE, _STARTS, _HASHES, _CAPACITY, _SLOTS, _SLOT_MASK = 0, 1, 2, 3, 4, 5, 6


def _word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode(), sys.byteorder))
