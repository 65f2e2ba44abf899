"""Text from outside made harmless to show: a file name must not move the cursor, forge a line or fail to encode.

Not here: HTML, which has rules of its own (`web.report`).
"""

from __future__ import annotations

import re
from typing import TypeVar, cast

_T = TypeVar("_T")

_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: escape sequences begin with one, lines end with another
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of writing
    "\u2028\u2029\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_text(text: str) -> str:
    """`text` on one line: control characters, direction marks and bytes that are no UTF-8 become backslash escapes."""
    return _UNSAFE.sub(_escaped, text)


def _escape_undecodable(text: str) -> str:
    """`text` that can be written as UTF-8: bytes of a file name that are none become backslash escapes (`\\xff`)."""
    return _SURROGATES.sub(_escaped, text)


def escape_text_within(value: _T) -> _T:
    """Return `value` (a struct, list or dict) with `escape_text` on all its text; itself where nothing changes."""
    return cast("_T", _within(value, _UNSAFE))


def escape_undecodable_text(value: _T) -> _T:
    """Return `value` (a struct, list or dict) with `_escape_undecodable` on all its text; itself if nothing changes."""
    return cast("_T", _within(value, _SURROGATES))


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _within(value: object, unsafe: re.Pattern[str]) -> object:
    if isinstance(value, str):
        return unsafe.sub(_escaped, value) if unsafe.search(value) else value
    if isinstance(value, list):
        items = [_within(item, unsafe) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = {_within(key, unsafe): _within(item, unsafe) for key, item in value.items()}
        same = all(a is b for a, b in zip(pairs.values(), value.values(), strict=False))
        return value if same and pairs.keys() == value.keys() else pairs
    names = None if value is None or isinstance(value, int | float) else getattr(value, "__struct_fields__", None)
    if names is None:
        return value
    from msgspec.structs import replace

    parts = {name: getattr(value, name) for name in names}
    changed = {name: new for name, part in parts.items() if (new := _within(part, unsafe)) is not part}
    return replace(value, **changed) if changed else value  # type: ignore[type-var]
