"""Any text whatever in the place of Lustre's: probes raise nothing but what their contract allows, and count what they
do not understand."""

from __future__ import annotations

import io
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.model.tables import TABLES
from fairlead.see.probes.base import AbsentError
from fairlead.see.probes.lustre import PROBES
from fairlead.see.probes.lustre.job_stats import scan_job_stats
from fairlead.see.probes.lustre.jobs import OST_SHAPE
from fairlead.see.probes.lustre.parameters import Dump
from fairlead.see.probes.lustre.stats_lines import parse_stats_lines
from lustre_writing import job_stats

TEXTS = {
    "llite.fs-ffff88105db50000.stats": b"snapshot_time 1510950459.772792457 secs.nsecs\n"
    b"start_time 1510950450.7 secs.nsecs\nread_bytes 1 samples [bytes] 4194304 4194304 4194304\n"
    b"open 136 samples [regs]\n",
    "llite.fs-ffff88105db50000.read_ahead_stats": b"snapshot_time 1510950459.776 secs.nsecs\nhits 5 samples [pages]\n"
    b"read but discarded 3 samples [pages]\n",
    "osc.fs-OST0003-osc-ffff88105db50000.stats": b"req_waittime 7348 samples [usec] 125 4694 2503101 1073107905\n"
    b"ost_read 2 samples [usec] 250 301 551 153101\n",
    "osc.fs-OST0003-osc-ffff88105db50000.rpc_stats": b"snapshot_time:         1510950459.796835534 (secs.nsecs)\n"
    b"read RPCs in flight:  0\n\n\t\t\tread\t\t\twrite\npages per rpc         rpcs   % cum % |       rpcs   % cum %\n"
    b"1:\t\t         4   0   0   |          9   0   0\n2K:\t\t         4   0   0   |          9   0   0\n",
    "mdc.fs-MDT0000-mdc-ffff88105db50000.md_stats": b"close 11 samples [reqs]\nintent_lock 329 samples [reqs]\n",
    "mdc.fs-MDT0000-mdc-ffff88105db50000.rpc_stats": b"\t\t\tmodify\nrpcs in flight        rpcs   % cum %\n"
    b"1: 90 45 45\n",
    "obdfilter.fs-OST0000.stats": b"write_bytes 5 samples [bytes] 4096 4194304 16552048697\npunch 57 samples [reqs]\n",
    "obdfilter.fs-OST0000.exports.10.2.4.27@o2ib1.stats": b"create 2 samples [reqs]\n",
    "obdfilter.fs-OST0000.job_stats": b"".join(job_stats(3, seed=9, idle=0)),
    "obdfilter.fs-OST0000.kbytestotal": b"47168367616",
    "obdfilter.fs-OST0000.kbytesfree": b"4716",
    "obdfilter.fs-OST0000.num_exports": b"3",
    "obdfilter.fs-OST0000.recovery_status": b"status: COMPLETE\nrecovery_start: 1510605701\nrecovery_duration: 0\n",
    "osd-zfs.fs-OST0000.brw_stats": b"                           read      |     write\n"
    b"disk I/O size          ios   % cum % |  ios         % cum %\n4K:   10 100 100   |    1 100 100\n",
    "ost.OSS.ost_io.stats": b"req_qdepth 4298835 samples [reqs] 0 4 1751 2055\n",
    "mdt.fs-MDT0000.md_stats": b"open 10 samples [reqs]\n",
    "mdt.fs-MDT0000.exports.10.2.4.27@o2ib1.stats": b"mkdir 10 samples [reqs]\n",
    "mdt.fs-MDT0000.job_stats": b"".join(job_stats(2, seed=9, idle=0, mdt=True, new=False)),
    "osp.fs-OST0003-osc-MDT0000.state": b"current_state: FULL\nstate_history:\n - [ 1510605153, DISCONN ]\n",
    "osc.fs-OST0003-osc-ffff88105db50000.import": b"import:\n    state: FULL\n    rpcs:\n       timeouts: 21\n",
    "health_check": b"healthy",
    "stats": b"0 28 0 101719323 101719291 0 0 21201322992 53029565353720 0 0",
}
LARGEST = (1 << 63) - 1


def mutated(text: bytes, seed: int) -> bytes:
    """The text with some of its bytes changed, lines moved or cut, numbers made huge."""
    rng = random.Random(seed)
    parts = bytearray(text)
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(parts) + 1) if parts else 0
        kind = rng.randrange(5)
        if kind == 0:
            parts[at : at + 1] = bytes((rng.randrange(256),))
        elif kind == 1:
            del parts[at : at + rng.randrange(1, 40)]
        elif kind == 2:
            parts[at:at] = rng.choice(
                [b"\n", b"- job_id: x\n", b": {", b"9" * 30, b"\x00", b" samples [", b"-1", b"\xff"]
            )
        elif kind == 3:
            lines = bytes(parts).split(b"\n")
            rng.shuffle(lines)
            parts = bytearray(b"\n".join(lines))
        else:
            parts = parts[:at]
    return bytes(parts)


def looked(texts: dict[str, bytes]) -> dict[str, Any]:
    """What each probe finds in a dump of these, or that it is not there."""
    dump = Dump(io.BytesIO(b"".join(name.encode() + b"=\n" + text + b"\n" for name, text in texts.items())))
    found: dict[str, Any] = {}
    for name, kind in PROBES.items():
        options: dict[str, Any] = {"everywhere": True} if name == "lustre_space" else {}
        probe = (
            kind(node="n1", place=dump, jobid_name="%j:%u", **options)
            if "jobs" in name
            else kind(node="n1", place=dump, **options)
        )
        try:
            probe.read(1_700_000_000 * 10**9)
            found[name] = probe.read(1_700_000_001 * 10**9)
        except AbsentError:
            continue
    return found


def checked(found: dict[str, Any]) -> None:
    """Everything fits its table: known columns, numbers that a column holds."""
    for result in found.values():
        for event in result.events:
            assert 0 <= event.ts_ns <= LARGEST
        for reading in result.readings:
            assert set(reading.keys) <= set(TABLES[reading.table].schema.names)
            assert reading.unknown >= 0
            assert bool(reading.unknown) == bool(reading.unknown_example)
            for key, values in reading.rows.items():
                assert all(part is None or (isinstance(part, str) and part) for part in key)
                for value in values:
                    for number in value if isinstance(value, list) else [value]:
                        assert number is None or 0 <= number <= LARGEST


def test_the_texts_are_understood_as_they_are() -> None:
    found = looked(TEXTS)
    assert set(found) == set(PROBES)
    checked(found)
    for name, result in found.items():
        for reading in result.readings:
            assert reading.unknown == 0, (name, reading.unknown_example)


@given(name=st.sampled_from(sorted(TEXTS)), text=st.binary(max_size=400))
def test_any_bytes(name: str, text: bytes) -> None:
    checked(looked({**TEXTS, name: text}))


@given(name=st.sampled_from(sorted(TEXTS)), seed=st.integers(0, 1 << 32))
def test_real_texts_changed(name: str, seed: int) -> None:
    checked(looked({**TEXTS, name: mutated(TEXTS[name], seed)}))


@given(line=st.from_regex(r"[a-z]{1,9}[^\n\x00\[\]]{0,40}", fullmatch=True), at=st.integers(0, 2))
def test_a_line_not_known_is_counted_once(line: str, at: int) -> None:
    lines = [b"snapshot_time 1510950459.7 secs.nsecs", b"open 136 samples [regs]"]
    lines.insert(at, line.encode("utf-8", "replace"))
    stats = parse_stats_lines(b"\n".join(lines) + b"\n")
    expected = (
        1 if "snapshot_time" not in line and "start_time" not in line and "elapsed_time" not in line else stats.unknown
    )
    assert (stats.unknown, stats.counts) == (expected, {"open": 136})


@given(seed=st.integers(0, 1 << 32), pieces=st.lists(st.integers(1, 3000), min_size=1, max_size=20))
def test_pieces_of_a_text_do_not_matter(seed: int, pieces: list[int]) -> None:
    text = mutated(b"".join(job_stats(5, seed=seed % 7, idle=0.2)), seed)

    def cut() -> Any:
        at = 0
        for size in pieces:
            yield text[at : at + size]
            at += size
        yield text[at:]

    found: list[Any] = []
    in_pieces = scan_job_stats(cut(), OST_SHAPE, lambda *job: found.append(job))
    whole: list[Any] = []
    at_once = scan_job_stats([text], OST_SHAPE, lambda *job: whole.append(job))
    assert found == whole
    assert in_pieces.unknown == at_once.unknown


@pytest.mark.parametrize("digits", [18, 19, 30])
def test_sums_of_the_largest_numbers_fit(digits: int) -> None:
    texts = {name: re.sub(rb"(?<=[ :])\d+(?= )", b"9" * digits, text) for name, text in TEXTS.items()}
    texts["obdfilter.fs-OST0000.job_stats"] = b"".join(texts["obdfilter.fs-OST0000.job_stats"] for _ in range(2))
    double = {name.replace("ffff88105db50000", "ffff88105db60000"): text for name, text in texts.items()}
    checked(looked({**texts, **double}))
    job = re.sub(rb"(?<=[ :])\d+(?=[ ,])", b"9" * digits, TEXTS["obdfilter.fs-OST0000.job_stats"])
    checked(looked({"obdfilter.fs-OST0000.job_stats": job}))


def test_numbers_of_any_length_cost_no_time() -> None:
    found = looked(
        {**TEXTS, "obdfilter.fs-OST0000.stats": b"write_bytes " + b"9" * 100_000 + b" samples [bytes] 1 1 1\n"}
    )
    checked(found)
    assert found["lustre_ost"].readings[0].rows[("fs-OST0000",)][1] == LARGEST


@pytest.mark.parametrize(
    "text",
    [
        b"- job_id:" * 50_000,
        b"a " * 200_000,
        b" " * 500_000,
        b"1:" * 200_000,
        b"a" + b" " * 200_000 + b"b",
        b"- job_id: a" + b" " * 200_000 + b"b\n",
        b"status: a" + b" " * 60_000 + b"b",
        b"\n" * 50_000,
    ],
)
def test_lines_made_to_be_slow_are_read_in_no_time(text: bytes) -> None:
    checked(looked({name: text if name != "health_check" else b"healthy" for name in TEXTS}))
