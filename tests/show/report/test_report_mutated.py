"""Reports on logs whose bytes were changed at will: a report or a clear error, never an exception nor a warning.

The logs are repacked without compression, so that no checksum stands between a change and the counters.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from darshan_bytes import HEADER, repacked
from fairlead.cli.terminal import Screen
from fairlead.core.safe_text import escape_text_within, escape_undecodable_text
from fairlead.see.sources import inputs
from fairlead.show.report import report_builder as reporting
from report_inputs import LOGS, ROOT

DOUBLES = (float("nan"), float("inf"), -1e30, 1e300, 5.5)
INTEGERS = (0, -1, 1, 1 << 40, 1 << 53, 2**63 - 1, -(2**63))
WORDS = [*(struct.pack("<q", n) for n in INTEGERS), *(struct.pack("<d", x) for x in DOUBLES)]
TIMES = [0, -1, 1, 10**9, 2 * 10**9, 4 * 10**9, 1 << 40, -(1 << 62), 64, 1000]
SETUP = reporting.load_report_setup()


@cache
def logs() -> list[bytes]:
    paths = [*sorted(LOGS.glob("*.darshan")), *sorted((ROOT / "tests" / "fixtures" / "darshan").glob("*.darshan"))]
    return [repacked(path.read_bytes(), 2) for path in paths if path.stat().st_size < 60_000]


def mutated(seed: int) -> bytes:
    """A log with bytes, 8-byte words, fields of the job or a stretch of it changed."""
    rng = random.Random(seed)
    raw = bytearray(rng.choice(logs()))
    count = rng.choice((1, 3, 20, 200))
    way = rng.randrange(4)
    if way == 0:
        for _ in range(count):
            raw[rng.randrange(HEADER.size, len(raw))] = rng.randrange(256)
    elif way == 1:
        for _ in range(count):
            at = rng.randrange(HEADER.size // 8, len(raw) // 8) * 8
            raw[at : at + 8] = rng.choice(WORDS)
    elif way == 2:
        for field in (1, 2, 3, 4, 5):
            if rng.random() < 0.5:
                struct.pack_into("<q", raw, HEADER.size + 8 * field, rng.choice(TIMES))
    else:
        at = rng.randrange(HEADER.size, len(raw))
        stretch = raw[at : at + rng.choice((8, 64, 1000))]
        raw[at : at + len(stretch)] = rng.randbytes(len(stretch))
    return bytes(raw)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_changed_log_is_reported_or_refused(tmp_path_factory: object, seed: int) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.darshan"  # type: ignore[attr-defined]
    path.write_bytes(mutated(seed))
    found, failures = inputs.discover_input_files([path])
    for job in inputs.group_input_files(found):
        one = reporting.build_report(job, SETUP, {}, failures)
        if one is None:
            assert failures
            continue
        json.loads(reporting.serialise_reports([one.verdict]))
        assert reporting.build_report_page(one).startswith("<!")
        with contextlib.redirect_stdout(io.StringIO()):
            Screen(SETUP, everything=True, explain=None).show([one], compared=False)
    assert all(str(path) in str(f.error) and f.error.remedy for f in failures)


TEXT = st.text(st.characters(codec=None), max_size=12)
VALUES = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)


def texts(value: object) -> Iterator[str]:
    """All text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts(item)


@given(value=VALUES)
def test_text_made_inert_is_one_line_of_utf8(value: object) -> None:
    safe = escape_text_within(value)
    for text in texts(safe):
        text.encode()
        assert len(text.splitlines()) <= 1
        assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    assert escape_text_within(safe) is safe
    for text in texts(escape_undecodable_text(value)):
        text.encode()


@given(value=VALUES.filter(lambda v: all(text.isprintable() for text in texts(v))))
def test_harmless_text_is_left_as_it_is(value: object) -> None:
    assert escape_text_within(value) is value
    assert escape_undecodable_text(value) is value


def test_what_becomes_of_a_name() -> None:
    name = Path("a\nb\t\x1b[31m\udcff\u202e\x9b é [red]")
    assert escape_text_within(str(name)) == "a\\nb\\t\\x1b[31m\\xff\\u202e\\x9b é [red]"
    assert escape_undecodable_text(str(name)) == "a\nb\t\x1b[31m\\xff\u202e\x9b é [red]"
