"""Errors of the system as a server raises and answers them. Not here: what a user reads (`core.errors`)."""

from __future__ import annotations

import os
from errno import EIO, ESTALE


def build_os_error(number: int) -> OSError:
    """An OSError of that number (Python picks the subclass)."""
    return OSError(number, os.strerror(number))


def build_stale_os_error() -> OSError:
    """The error for a node that is not where it was; the client's kernel then looks its name up again."""
    return build_os_error(ESTALE)


def get_os_error_number(error: OSError) -> int:
    """The number to answer for an error of the system: -errno."""
    return -(error.errno or EIO)
