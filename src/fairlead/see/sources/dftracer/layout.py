"""The columns both line readers fill: one int64 row per event. Shared by the JSON path and the compiled scanner.

Strings are codes into `Tokens`; ABSENT marks what an event does not say.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

PH: Final = 0
NAME: Final = 1
CAT: Final = 2
TS: Final = 3
DUR: Final = 4
PID: Final = 5
HHASH: Final = 6
FHASH: Final = 7
FNAME: Final = 8
HOST: Final = 9
RET: Final = 10
COUNT: Final = 11
SIZE: Final = 12
OFFSET: Final = 13
WHENCE: Final = 14
FD: Final = 15
FH: Final = 16
MODE: Final = 17
FLAGS: Final = 18
TEXT_LEN: Final = 19
META_NAME: Final = 20
META_VALUE: Final = 21
COLUMNS: Final = 22

ABSENT: Final = -(1 << 63)
"""No value; also what no count, offset or descriptor can be."""

# What a row is, in column PH.
SKIPPED: Final = 0
COMPLETE: Final = 1
METADATA: Final = 4
UNREAD: Final = -1
"""A line the scanner leaves to the JSON reader; TS and DUR then hold its first and last byte in the block."""

DFTRACER_TOKEN: Final = 0
"""Code of the category `dftracer`, interned first."""

TRIMMED: Final = b" \t\r,[]"
"""What may stand around an event on its line: the brackets and commas of a Chrome-trace array."""
