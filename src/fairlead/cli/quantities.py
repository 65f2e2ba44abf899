"""Sizes and seconds on the command line. Not here: rates and ages, which the commands that take them read."""

from __future__ import annotations

import math
import re

import click

_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(i?B)?", re.IGNORECASE)
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in newer click only
    """Bytes: a whole number with K, M, G or T (powers of 1024), up to `most`, which is itself given as text."""

    name = "size"

    def __init__(self, most: str) -> None:
        self._most = most

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes; click's own error for what is no size or too much."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            self.fail(f"{value!r} is not a size; write 4M or 1G", param, ctx)
        size = int(match[1]) << _SHIFT[match[2].upper()]
        if value != self._most and size > self.convert(self._most, param, ctx):
            self.fail(f"{value} is more than {self._most}", param, ctx)
        return size


class Seconds(click.FloatRange):
    """Seconds from 0 to `most`, fractions allowed; "nan" is a float, but no time."""

    name = "seconds"

    def __init__(self, most: float) -> None:
        super().__init__(min=0, max=most)

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; click's own error for what is no time or out of range."""
        seconds = float(super().convert(value, param, ctx))  # type: ignore[arg-type]  # click takes text too
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds
