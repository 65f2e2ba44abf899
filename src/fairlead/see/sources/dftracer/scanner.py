"""Drives the compiled scanner over the blocks of one trace: its tables, its rows, and their room.

Imported only for large inputs: this loads numba.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairlead.see.sources.dftracer import kernel as k
from fairlead.see.sources.dftracer import layout as c
from fairlead.see.sources.dftracer.blocks import PADDING
from fairlead.see.sources.dftracer.tokens import Tokens

BUFFERS = 3
"""Sets of rows used in turn: one being filled, one looked ahead at, one being converted."""


class Scanner:
    """Holds the token tables of one trace and drives `kernel.scan_kernel_lines`. Its codes and those of `tokens` stay
    in step."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._arena = np.zeros(1 << 16, np.uint8)
        self._starts = np.zeros((1 << 10) + 1, np.int64)
        self._hashes = np.zeros(1 << 10, np.int64)
        self._slots = np.full(1 << 11, -1, np.int64)
        self._state = np.zeros(k.STATE_BYTES // 8, np.int64)
        self._buffers = [(np.empty((c.COLUMNS, k.ROWS), np.int64), np.empty(k.ROWS, np.int64)) for _ in range(BUFFERS)]
        self._calls = 0
        self._place_tables()
        for text in tokens.texts:
            self._add(text)
        tokens.on_new = self._add

    def scan(self, data: NDArray[np.uint8], start: int) -> tuple[c.IntArray, c.IntArray, int, int]:
        """Rows (COLUMNS, n), their line numbers (n,) from 0, where to go on in `data`, and the lines passed.

        `data` is a block as uint8: whole lines, then PADDING. The rows stay as they are until BUFFERS - 1 more calls.
        """
        rows, numbers = self._buffers[self._calls % BUFFERS]
        self._calls += 1
        rows.fill(c.ABSENT)
        block, state = data.ctypes.data, self._state
        self._set(k.ROW, 0)
        self._set(k.LINES, 0)
        self._set(k.ROWS_AT, rows.ctypes.data)
        self._set(k.ROWS_STRIDE, rows.strides[0])
        self._set(k.NUMBERS_AT, numbers.ctypes.data)
        self._set(k.NEXT, block + start)
        while True:
            k.scan_kernel_lines(block, self._get(k.NEXT), block + len(data) - len(PADDING), state.ctypes.data)
            if not self._get(k.WANTS_ROOM):
                break
            self._grow()
        self._share()
        found = self._get(k.ROW)
        return rows[:, :found], numbers[:found], self._get(k.NEXT) - block, self._get(k.LINES)

    def _get(self, place: int) -> int:
        return int(self._state[place // 8])

    def _set(self, place: int, value: int) -> None:
        self._state[place // 8] = value

    def _place_tables(self) -> None:
        self._set(k.ARENA, self._arena.ctypes.data)
        self._set(k.ARENA_SIZE, len(self._arena))
        self._set(k.STARTS, self._starts.ctypes.data)
        self._set(k.HASHES, self._hashes.ctypes.data)
        self._set(k.CAPACITY, len(self._hashes))
        self._set(k.SLOTS, self._slots.ctypes.data)
        self._set(k.SLOT_MASK, len(self._slots) - 1)

    def _share(self) -> None:
        """Tell the Python side of the tokens that this call was the first to see."""
        known, count = len(self._tokens), self._get(k.TOKENS)
        if known == count:
            return
        edges = self._starts[known : count + 1].tolist()
        text = self._arena[edges[0] : edges[-1]].tobytes()
        for a, b in pairwise(edges):
            self._tokens.append(text[a - edges[0] : b - edges[0]])

    def _add(self, text: bytes) -> None:
        data = np.frombuffer(text + PADDING, np.uint8)
        at = data.ctypes.data
        while k.intern_kernel_token(at, at + len(text), self._state.ctypes.data) == k.FULL:
            self._grow()

    def _grow(self) -> None:
        self._arena = np.concatenate([self._arena, np.zeros(len(self._arena), np.uint8)])
        self._starts = np.concatenate([self._starts, np.zeros(len(self._hashes), np.int64)])
        self._hashes = np.concatenate([self._hashes, np.zeros(len(self._hashes), np.int64)])
        self._slots = np.empty(2 * len(self._slots), np.int64)
        k.rehash_kernel_tokens(self._slots, self._hashes, self._get(k.TOKENS))
        self._place_tables()
