"""Compiled forms of the scanners. numba is imported only when one is asked for; its machine code is cached on disk.

numba's cache follows the one file a function stands in; the names cached under here follow all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from types import FunctionType
from typing import Any

from fairlead.core.jit import compile_jit_function
from fairlead.see.sources.beacon import layout, scan, scan_counters, scan_trace


def compile_kernel(function: Callable[..., Any], *, fast: bool) -> Callable[..., Any]:
    """`function` itself, or its compiled form."""
    return _compiled(function) if fast else function


@cache
def _compiled(function: FunctionType) -> Callable[..., Any]:
    named = FunctionType(function.__code__, function.__globals__, function.__name__)
    named.__qualname__ = f"{function.__name__}_{_register_parts()}"
    return compile_jit_function(named)


@cache
def _register_parts() -> str:
    """Let numba compile what the scanners call; a word that changes with any of their sources."""
    from numba.extending import register_jitable

    for part in (*scan.PARTS, *scan_trace.PARTS, *scan_counters.PARTS):
        register_jitable(part)
    sources = "".join(inspect.getsource(module) for module in (layout, scan, scan_trace, scan_counters))
    return blake2b(sources.encode(), digest_size=6).hexdigest()
