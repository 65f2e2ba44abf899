"""What single-file pages share: data made inert in a script element, filled slots, a policy that fetches nothing.

Not here: what a page shows (`web.report`, `web.path`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

_SLOT = re.compile(r"\{\{(\w+)\}\}")
# Only inside strings can these occur in JSON, so escaping them never changes the data; what is left cannot end a script
# element, open a comment in it or end a line of JavaScript.
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


def fill_page_file_template(template: str, slots: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced; what is put in is not looked at again."""
    return _SLOT.sub(lambda slot: slots[slot[1]], template)


def join_page_scripts(scripts: Sequence[str]) -> str:
    """Scripts joined, in order, into one strict function scope."""
    parts = "\n".join(scripts)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def embed_page_file_json(data: Any) -> str:
    """`data` as JSON that is inert inside a script element, whatever its strings hold. NaN and infinity become null."""
    try:
        text = msgspec.json.encode(data, enc_hook=convert_page_numpy)
    except UnicodeEncodeError:  # A file name that is not UTF-8 comes with lone surrogates.
        text = msgspec.json.encode(make_page_file_readable(msgspec.to_builtins(data, enc_hook=convert_page_numpy)))
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text.decode()


def convert_page_numpy(value: Any) -> Any:
    """NumPy arrays and scalars as lists and numbers, without importing NumPy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be shown on the page")


def make_page_file_readable(value: Any) -> Any:
    """The same value with bytes that were not UTF-8 written out, as in `caf\\xe9`."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:
            return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {make_page_file_readable(key): make_page_file_readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_page_file_readable(item) for item in value]
    return value


@cache
def build_page_file_policy(script: str, style: str) -> str:
    """A content security policy that lets exactly this script and this style run, and nothing be fetched."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
