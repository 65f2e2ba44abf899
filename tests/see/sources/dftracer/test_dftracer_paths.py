"""Both ways of reading DFTracer lines give the same records, whatever the lines look like."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dftracer_writing import T0_US, read
from fairlead.core.errors import InputError

_WORDS = st.sampled_from(
    [
        "read",
        "write",
        "pwrite",
        "open",
        "close",
        "lseek",
        "fopen",
        "fread",
        "fseek",
        "fclose",
        "step",
        "FH",
        "HH",
        "start",
    ]
)
_STRINGS = st.one_of(
    st.sampled_from(["a", "r", "ab", "/data/x", "", "12", "-7", "007", "1e3", "rank"]), st.text(max_size=12)
)
_NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.integers(-(1 << 64), 1 << 65),
    st.sampled_from([(1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1, 10**19, 10**20, 0]),
)
_VALUES: st.SearchStrategy[Any] = st.one_of(
    _NUMBERS,
    _NUMBERS.map(str),
    _STRINGS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(_STRINGS, st.integers(), max_size=2),
)
_KEYS = st.sampled_from(
    [
        "ret",
        "count",
        "size",
        "offset",
        "whence",
        "fd",
        "fh",
        "flags",
        "mode",
        "hhash",
        "fhash",
        "fname",
        "hostname",
        "str_len",
        "ret_len",
        "name",
        "value",
        "level",
        "p_idx",
        "dft_cnt",
        "retu",
        "hostname_",
        "",
    ]
)
_SMALL = st.integers(0, 5)


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly sound events of the shapes DFTracer writes, with some of anything."""
    likely = st.fixed_dictionaries(
        {},
        optional={
            "ret": st.integers(-1, 90),
            "size": _SMALL,
            "offset": _SMALL,
            "fd": _SMALL,
            "whence": st.integers(0, 2),
            "fhash": _SMALL,
            "hhash": _SMALL,
            "mode": st.sampled_from(["r", "a", 438]),
        },
    )
    args = draw(st.one_of(likely, likely, st.dictionaries(_KEYS, _VALUES, max_size=8)))
    event: dict[str, Any] = {
        "id": draw(_NUMBERS),
        "name": draw(_WORDS),
        "cat": draw(st.sampled_from(["POSIX", "STDIO", "dftracer", "APP"])),
        "pid": draw(st.sampled_from([1, 2, "3"])),
        "tid": 1,
        "ts": T0_US + draw(st.integers(0, 1000)),
        "dur": draw(st.one_of(_SMALL, st.just("4"), _NUMBERS)),
        "ph": draw(st.sampled_from(["X", "X", "X", 1, "M", 4, "C", 2, "i"])),
        "args": args,
    }
    if event["ph"] in ("M", 4):
        event["args"] = args | {"name": draw(_STRINGS), "value": draw(st.one_of(_SMALL, _STRINGS))}
    for key in draw(st.lists(st.sampled_from(list(event)), max_size=1)):
        if draw(st.booleans()):
            del event[key]
        else:
            event[key] = draw(_VALUES)
    return event


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    """One event with its keys in any order, blanks anywhere, escapes or not, and what stands around it."""
    event = draw(_events())
    if draw(st.booleans()):
        event = {key: event[key] for key in draw(st.permutations(list(event)))}
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r ")]))
    line = json.dumps(event, separators=(comma, colon), ensure_ascii=draw(st.booleans()))
    line = (
        draw(st.sampled_from(["", " ", "[", ",[ ", "\t"])) + line + draw(st.sampled_from(["", ",", " ]", "\r", ", "]))
    )
    raw = line.encode("utf-8", "surrogateescape" if draw(st.booleans()) else "surrogatepass")
    damage = draw(st.integers(0, 30))
    if damage == 0 and raw:
        at = draw(st.integers(0, len(raw) - 1))
        raw = (
            raw[:at] + draw(st.sampled_from([b"", b'"', b"{", b"}", b",", b"\\", b"\xff", b"\0", b":"])) + raw[at + 1 :]
        )
    return raw


def _read(path: Path, *, compiled: bool) -> object:
    try:
        got = read(path, compiled=compiled)
    except InputError as error:
        return (type(error), str(error))
    return (got.rows, got.files, got.job, got.missing)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_lines(), min_size=1, max_size=12))
def test_both_ways_agree(lines: list[bytes]) -> None:
    sound = b'{"name":"stat","cat":"POSIX","pid":1,"tid":1,"ts":%d,"dur":1,"ph":"X","args":{}}\n' % T0_US
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.pfw"
        path.write_bytes(sound + b"\n".join(lines))
        assert _read(path, compiled=True) == _read(path, compiled=False)
