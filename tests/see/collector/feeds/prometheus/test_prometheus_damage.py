"""Whatever an exporter shows or a sender sends: rows or one clear error, never another."""

from __future__ import annotations

import math
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.errors import CorruptInputError
from fairlead.see.collector.feeds.prometheus import protobuf
from fairlead.see.collector.feeds.prometheus.assembly import Assembly
from fairlead.see.collector.feeds.prometheus.exposition import Page, parse_exposition_labels
from fairlead.see.collector.feeds.prometheus.mapping import load_mapping

NAMES = st.sampled_from(["lustre_write_bytes_total", "lustre_job_read_bytes_total", "a", "_b:c"])
TEXT = st.text(max_size=8)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@given(st.text(alphabet=st.sampled_from('lustre_{}="\\, \n#1.eNa\r\x0b'), max_size=200))
def test_any_page_is_read_or_counted(text: str) -> None:
    page = Page(text)
    assembly = Assembly(load_mapping(), lambda key: parse_exposition_labels(str(key)))
    found = list(page.read_values())
    assembly.build_rows((series, 5, value) for series, value, _ in found)
    lines = [line for line in text.split("\n") if line.strip() and line[0] != "#"]
    assert len(found) + page.strange == len(lines)


@given(NAMES, st.dictionaries(st.sampled_from(["component", "target", "x_1"]), TEXT), st.floats())
def test_what_is_written_is_read(name: str, labels: dict[str, str], value: float) -> None:
    inner = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    ((series, read, stamp),) = Page(f"{name}{{{inner}}} {value!r}\n").read_values()
    assert parse_exposition_labels(series) == {"__name__": name, **labels}
    assert read == value or (math.isnan(read) and math.isnan(value))
    assert stamp is None


@given(st.binary(max_size=300))
def test_any_message_is_read_or_refused(data: bytes) -> None:
    with suppress(CorruptInputError):
        for labels, samples in protobuf.parse_protobuf_series(data):
            protobuf.parse_protobuf_labels(labels)
            assert all(isinstance(stamp, int) for stamp, _ in samples)
    with suppress(CorruptInputError):
        assert len(protobuf.inflate_protobuf_body(data, 1000)) <= 1000
