"""Unchecked reads and writes at addresses, for the compiled scanner: an array passed from function to function would
be reference-counted at every call. Not for general use: nothing is checked, the caller keeps addresses in bounds.
"""

from __future__ import annotations

from typing import Any

import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

intrinsic: Any = numba.extending.intrinsic


@intrinsic
def load_memory_byte(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The byte at an address, as int64."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        place = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(place), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def load_memory_word(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The eight bytes from an address on as uint64, the first byte lowest (on little-endian machines)."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(types.int64), generate


@intrinsic
def load_memory_number(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """The int64 at an address that is a multiple of 8."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=8)

    return types.int64(types.int64), generate


@intrinsic
def store_memory_number(typing_context, address, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Store an int64 at an address that is a multiple of 8."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store(args[1], place, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def store_memory_byte(typing_context, address, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Store the low byte of an int64."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        place = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(args[1], ir.IntType(8)), place)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def count_trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Zero bits below the lowest set one of a uint64, as int64; 64 for zero."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate
