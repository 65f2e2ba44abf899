"""Strings as small codes: names, categories, hashes, paths and hosts of one trace, each kept once.

Not here: what a token means (`event_words`, `names`).
"""

from __future__ import annotations

from collections.abc import Callable


def encode_dftracer_token(text: str) -> bytes:
    """Bytes of a text as JSON gave it: escaped bytes come back as they were, lone surrogates are kept as their code."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class Tokens:
    """Bytes ↔ codes 0, 1, 2, ... in order of first sight. `on_new` lets the compiled scanner mirror additions."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.on_new: Callable[[bytes], None] | None = None
        self._codes: dict[bytes, int] = {}
        self.code(b"dftracer")

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: bytes) -> int:
        """Code of `text`, a new one when it was never seen."""
        known = self._codes.get(text)
        if known is not None:
            return known
        if self.on_new is not None:
            self.on_new(text)
        return self.append(text)

    def find(self, text: bytes) -> int:
        """Code of `text`, -1 when it was never seen."""
        return self._codes.get(text, -1)

    def append(self, text: bytes) -> int:
        """Take over a token another index has just given the next code."""
        code = len(self.texts)
        self._codes[text] = code
        self.texts.append(text)
        return code

    def decode_text(self, code: int) -> str:
        """The string of a code; bytes that are no UTF-8 survive as surrogates."""
        return self.texts[code].decode("utf-8", "surrogateescape")
