"""Loops as machine code: one way to compile them, for modules called `..._kernel`.

Importing this loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


def compile_jit_function(function: _F) -> _F:
    """The function as machine code that runs beside others, kept on disk where that is possible."""
    import numba

    try:
        return cast("_F", numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder to keep it in
        return cast("_F", numba.njit(nogil=True)(function))
