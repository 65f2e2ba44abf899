"""Compiled forms of the scanners. numba is imported only when one is asked for; its machine code is cached on disk.

The cache follows the file a scanner stands in: after editing `scan.py` alone, touch the others too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fairlead.sources.beacon import scan, scan_counters, scan_trace


def kernel(function: Callable[..., Any], *, fast: bool) -> Callable[..., Any]:
    """`function` itself, or its compiled form."""
    return _compiled(function) if fast else function


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    _register_parts()
    compiled: Callable[..., Any]
    try:
        compiled = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder for the cache can be written
        compiled = numba.njit(nogil=True)(function)
    return compiled


@cache
def _register_parts() -> None:
    from numba.extending import register_jitable

    for part in (*scan.PARTS, *scan_trace.PARTS, *scan_counters.PARTS):
        register_jitable(part)
