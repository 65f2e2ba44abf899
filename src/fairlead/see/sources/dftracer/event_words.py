"""What DFTracer calls things → the words of the `ops` table, and what each kind of event does to a file position.

Names are the traced functions (`__xstat64`, `pread`, `MPI_File_write_at_all_begin`); interfaces are POSIX, STDIO,
MPI-IO, H5F, H5D, H5 (other HDF5 calls) and APP (what the application or its framework marked itself).
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = {
    "read": "read pread readv preadv preadv2 fread fread_unlocked fgets fgetc getc getc_unlocked getw fscanf aio_read",
    "write": "write pwrite writev pwritev pwritev2 fwrite fwrite_unlocked fputs fputc putc putc_unlocked putw fprintf "
    "vfprintf aio_write",
    "open": "open openat openat2 creat fopen fdopen freopen mkstemp mkostemp open_by_handle_at",
    "close": "close fclose pclose",
    "stat": "stat fstat lstat xstat lxstat fxstat fxstatat fstatat newfstatat statx",
    "seek": "lseek llseek fseek fseeko rewind fsetpos",
    "tell": "ftell ftello fgetpos",
    "flush": "fflush",
    "fsync": "fsync",
    "fdatasync": "fdatasync",
    "mmap": "mmap",
    "unlink": "unlink unlinkat remove",
    "mkdir": "mkdir mkdirat",
    "rmdir": "rmdir",
    "opendir": "opendir fdopendir",
    "readdir": "readdir readdir_r",
    "closedir": "closedir",
    "rename": "rename renameat renameat2",
    "truncate": "truncate ftruncate",
    "access": "access faccessat faccessat2 eaccess",
    "link": "link linkat",
    "symlink": "symlink symlinkat",
    "readlink": "readlink readlinkat",
    "chmod": "chmod fchmod fchmodat",
    "chown": "chown fchown lchown fchownat",
}
_WORD_OF: Final = {name: word for word, names in _WORDS.items() for name in names.split()}
_MPI_WORD_OF: Final = {
    "open": "open",
    "close": "close",
    "delete": "unlink",
    "sync": "fsync",
    "seek": "seek",
    "seek_shared": "seek",
    "set_size": "truncate",
    "preallocate": "truncate",
}
_H5_WORDS: Final = (
    (re.compile(r"H5Dread(_multi|_chunk)?(_async)?"), "read"),
    (re.compile(r"H5Dwrite(_multi|_chunk)?(_async)?"), "write"),
    (re.compile(r"H5[FDG](open|create)[0-9]?(_async)?"), "open"),
    (re.compile(r"H5[FDG]close(_async)?"), "close"),
    (re.compile(r"H5[FD]flush(_async)?"), "flush"),
)
_H5 = re.compile(r"H5([A-Z]{1,2})[a-z]")
_MPI_FILE = "MPI_File_"

APP: Final = "APP"

# What an operation does to the position of its handle.
NOTHING: Final = 0
OPENS: Final = 1
CLOSES: Final = 2
MOVES: Final = 3
"""Reads or writes where the position stands, and moves it."""
PLACED: Final = 4
"""Reads or writes at an offset of its own."""
SEEKS: Final = 5
TELLS: Final = 6
REWINDS: Final = 7
LOSES: Final = 8
"""Leaves the position unknown."""

# How an event tells the bytes it moved.
NO_SIZE: Final = 0
BY_RETURN: Final = 1
BY_ITEMS: Final = 2
BY_TEXT: Final = 3
ONE_BYTE: Final = 4
NOT_TOLD: Final = 5
"""It moved bytes, how many is not in the trace (formatted output, MPI datatypes)."""


def find_event_interface(category: str, name: str) -> str:
    """Interface of an event by its category, and by its name where the category is a library's sub-category."""
    if category in ("POSIX", "STDIO"):
        return category
    if name.startswith(_MPI_FILE):
        return "MPI-IO"
    hdf5 = _H5.match(name)
    if hdf5:
        return f"H5{hdf5[1]}" if hdf5[1] in ("F", "D") else "H5"
    return APP


def _plain_name(name: str) -> str:
    return name.lower().lstrip("_").removesuffix("64").removesuffix("_")


def find_event_word(interface: str, name: str) -> str:
    """The word of column `op`; unknown functions keep their own name."""
    if interface == APP:
        return name
    if interface == "MPI-IO":
        return _mpi_word(name)
    if interface.startswith("H5"):
        return next((word for shape, word in _H5_WORDS if shape.fullmatch(name)), name.lower())
    plain = _plain_name(name)
    return _WORD_OF.get(plain, plain or name)


def _mpi_word(name: str) -> str:
    call = name.removeprefix(_MPI_FILE).removesuffix("_c").lower()
    known = _MPI_WORD_OF.get(call)
    if known:
        return known
    if not call.endswith("_end"):
        for direction in ("read", "write"):
            if call.startswith((direction, f"i{direction}")):
                return direction
    return call


def find_event_position_effect(interface: str, name: str) -> int:
    """One of NOTHING ... LOSES. Only POSIX and STDIO positions can be followed."""
    if interface not in ("POSIX", "STDIO"):
        return NOTHING
    plain = _plain_name(name)
    word = find_event_word(interface, name)
    if word in ("read", "write"):
        return PLACED if plain.startswith(("pread", "pwrite", "aio_")) else MOVES
    if plain in ("rewind", "fsetpos", "freopen", "fdopen"):
        return REWINDS if plain == "rewind" else LOSES
    if plain.startswith("ftell"):
        return TELLS
    return {"open": OPENS, "close": CLOSES, "seek": SEEKS}.get(word, NOTHING)


def find_event_size_rule(interface: str, name: str) -> int:
    """One of NO_SIZE ... NOT_TOLD: only reads and writes have a size."""
    if find_event_word(interface, name) not in ("read", "write") or interface == APP:
        return NO_SIZE
    plain = _plain_name(name)
    if interface == "POSIX":
        return BY_ITEMS if plain in ("fread", "fwrite") else BY_RETURN
    if interface == "STDIO":
        if plain.startswith(("fread", "fwrite")):
            return BY_ITEMS
        if plain in ("fgets", "fputs"):
            return BY_TEXT
        if plain in ("fgetc", "getc", "getc_unlocked", "fputc", "putc", "putc_unlocked"):
            return ONE_BYTE
    return NOT_TOLD
