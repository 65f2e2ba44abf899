"""Which request that is sent again is carried out again: the judgement by inode, and the records it rests on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fairlead.steer.forwarding.forwarder.intent_log import (
    RECORD_BYTES,
    RECORDS,
    RENAME_EXCHANGE,
    EntryState,
    Intent,
    IntentFile,
    Verdict,
    find_intent_append,
    judge_intent,
    read_intents,
)
from fairlead.steer.fs.fuse.abi import Op

NOTHING = EntryState(0, 0)


def intent(op: Op, **fields: int) -> Intent:
    return Intent(7, int(op), 1, b"name", **fields)


@pytest.mark.parametrize(
    ("begun", "found", "verdict"),
    [
        (intent(Op.CREATE, expected=50, mark=9), NOTHING, Verdict.AGAIN),
        (intent(Op.CREATE, expected=50, mark=9), EntryState(50, 9), Verdict.DONE),
        (intent(Op.CREATE, expected=50, mark=9), EntryState(51, 9), Verdict.AGAIN),
        (intent(Op.CREATE, expected=50, mark=9), EntryState(50, 10), Verdict.LIKELY_NOT),
        (intent(Op.MKDIR), NOTHING, Verdict.AGAIN),
        (intent(Op.MKDIR), EntryState(50, 1), Verdict.LIKELY),
        (intent(Op.MKDIR, second=50), EntryState(50, 1), Verdict.AGAIN),
        (intent(Op.LINK, expected=50), EntryState(50, 1), Verdict.DONE),
        (intent(Op.LINK, expected=50), EntryState(51, 1), Verdict.AGAIN),
        (intent(Op.LINK, expected=50), NOTHING, Verdict.AGAIN),
        (intent(Op.LINK, expected=50, second=50), EntryState(50, 1), Verdict.AGAIN),
        (intent(Op.UNLINK, expected=50, mark=9), NOTHING, Verdict.DONE),
        (intent(Op.UNLINK, expected=50, mark=9), EntryState(51, 9), Verdict.DONE),
        (intent(Op.UNLINK, expected=50, mark=9), EntryState(50, 9), Verdict.AGAIN),
        (intent(Op.UNLINK, expected=50, mark=9), EntryState(50, 10), Verdict.LIKELY_NOT),
        (intent(Op.RMDIR, expected=0), NOTHING, Verdict.AGAIN),
        (intent(Op.RENAME, expected=50), EntryState(50, 1, 0), Verdict.AGAIN),
        (intent(Op.RENAME, expected=50), EntryState(0, 0, 50), Verdict.DONE),
        (intent(Op.RENAME, expected=50), EntryState(60, 1, 50), Verdict.DONE),
        (intent(Op.RENAME, expected=50), EntryState(0, 0, 70), Verdict.LIKELY),
        (intent(Op.RENAME, expected=0), EntryState(0, 0, 70), Verdict.AGAIN),
        (intent(Op.RENAME2, expected=50, second=60, flags=RENAME_EXCHANGE), EntryState(60, 1, 50), Verdict.DONE),
        (intent(Op.RENAME2, expected=50, second=60, flags=RENAME_EXCHANGE), EntryState(50, 1, 60), Verdict.AGAIN),
    ],
)
def test_judgement(begun: Intent, found: EntryState, verdict: Verdict) -> None:
    assert judge_intent(begun, found) is verdict
    assert verdict.carried_out == (verdict in (Verdict.DONE, Verdict.LIKELY))


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (b"", (0, True)),
        (b"abcdef", (6, True)),
        (b"abcdefXYZ", (6, True)),
        (b"abc", (3, True)),
        (b"abX", (0, False)),
        (b"XYZabcdef", (6, False)),
        (b"abcXYZ", (0, False)),
    ],
)
def test_appends_are_found_in_the_file(since: bytes, expected: tuple[int, bool]) -> None:
    assert find_intent_append(b"abcdef", since) == expected


def opened(path: Path) -> IntentFile:
    return IntentFile(os.open(path, os.O_RDWR | os.O_CREAT))


def test_records_are_read_back(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    rename = Intent(1, int(Op.RENAME2), 2, b"old", 3, b"new" * 80, 50, -1 & (1 << 63) - 1, 60, 2, 99)
    made = Intent(2, int(Op.MKDIR), 2, "größe".encode(), when_ns=100)
    first, second = file.begin(rename), file.begin(made)
    assert first != second
    file.finish(second, 77)
    found = read_intents((tmp_path / "intents").read_bytes())
    assert found == {1: rename, 2: made._replace(done=True, outcome=77)}
    file.close()


def test_an_error_is_an_outcome_and_a_request_never_begun_is_none(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    file.finish(file.begin(intent(Op.UNLINK)), -errno.ENOENT)
    file.drop(file.begin(intent(Op.UNLINK)._replace(number=8)))
    found = read_intents((tmp_path / "intents").read_bytes())
    assert {number: one.outcome for number, one in found.items()} == {7: -errno.ENOENT}
    file.close()


def test_a_begun_record_is_never_used_again_and_a_done_one_only_after_many_others(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    file.begin(intent(Op.UNLINK))
    for number in range(100, 100 + 3 * RECORDS):
        file.finish(file.begin(intent(Op.UNLINK)._replace(number=number)), 0)
    found = read_intents((tmp_path / "intents").read_bytes())
    assert 7 in found
    assert set(found) >= set(range(100 + 2 * RECORDS + 1, 100 + 3 * RECORDS))
    assert len(found) == RECORDS
    file.close()


def test_of_two_records_the_done_one_counts_then_the_later(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    done = file.begin(intent(Op.UNLINK, expected=1, when_ns=5))
    file.begin(intent(Op.UNLINK, expected=2, when_ns=6))
    file.finish(done, 0)
    assert read_intents((tmp_path / "intents").read_bytes())[7].expected == 1
    file.begin(intent(Op.UNLINK)._replace(number=8, expected=3, when_ns=5))
    file.begin(intent(Op.UNLINK)._replace(number=8, expected=4, when_ns=6))
    assert read_intents((tmp_path / "intents").read_bytes())[8].expected == 4
    file.close()


def test_names_no_file_can_have_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    with pytest.raises(OSError) as refused:
        file.begin(Intent(1, int(Op.MKDIR), 1, b"x" * 256))
    assert refused.value.errno == errno.ENAMETOOLONG
    assert read_intents((tmp_path / "intents").read_bytes()) == {}
    file.close()


def test_the_file_has_no_holes_that_a_full_disk_could_not_fill(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    assert (tmp_path / "intents").stat().st_blocks * 512 >= RECORDS * RECORD_BYTES
    file.close()


def test_a_removed_file_is_noticed(tmp_path: Path) -> None:
    file = opened(tmp_path / "intents")
    assert not file.is_removed()
    (tmp_path / "intents").unlink()
    assert file.is_removed()
    file.close()


def test_a_torn_file_is_read_as_far_as_it_goes() -> None:
    assert read_intents(b"\x01" * (RECORD_BYTES - 1)) == {}
    assert read_intents(b"") == {}
