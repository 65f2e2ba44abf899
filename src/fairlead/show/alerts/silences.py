"""Silences and acknowledgements: what is known already is not told again. Patterns over what a concern is.

Not here: where they are kept (`state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from fairlead.core.errors import UsageError
from fairlead.show.alerts.alert_subject import Concern
from fairlead.show.alerts.state import Silence

FIELDS = ("id", "rule", "severity", "layer", "component", "user", "program", "job")
"""What a silence may name."""


def _list_field_values(concern: Concern, field: str) -> list[str]:
    """What a concern has in a field; empty when that is not known."""
    match field:
        case "layer":
            return concern.layers
        case "component":
            return concern.components
        case "job":
            return [*([concern.job] if concern.job else []), *concern.jobs]
    value = getattr(concern, field)
    return [value] if value else []


def _matches_concern(concern: Concern, match: Mapping[str, str]) -> bool:
    """Whether every field has a value that fits its pattern. What is not known fits nothing, not even `*`."""
    return all(
        any(fnmatchcase(value, pattern) for value in _list_field_values(concern, field))
        for field, pattern in match.items()
    )


def find_silence(concern: Concern, silences: Iterable[Silence], now_ns: int) -> Silence | None:
    """The silence that holds for it now, if there is one."""
    return next((one for one in silences if now_ns < one.until_ns and _matches_concern(concern, one.match)), None)


def parse_silence_match(words: Sequence[str]) -> dict[str, str]:
    """`["component=fs-OST*", "rule=component.*"]` as fields and patterns. Raises UsageError."""
    found: dict[str, str] = {}
    for word in words:
        field, equals, pattern = word.partition("=")
        if not equals or not pattern or field not in FIELDS:
            raise UsageError(
                "not a valid pattern of a silence",
                where=word,
                remedy="write FIELD=PATTERN; fields: " + ", ".join(FIELDS),
            )
        if field in found:
            raise UsageError(f"{field} is given twice", where=word, remedy="use two silences")
        found[field] = pattern
    if not found:
        raise UsageError("this would mute everything", remedy="name what to mute: --match component=NAME")
    return found
