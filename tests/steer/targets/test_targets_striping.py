"""RAID-0 arithmetic, against the slow and obvious way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.steer.targets.striping import (
    compute_stripe_object_size,
    compute_striped_end,
    compute_striped_offset,
    locate_striped_byte,
    split_striped_range,
)

SIZES = st.integers(1, 16)
COUNTS = st.integers(1, 7)


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 24), st.integers(1, 64))
def test_every_byte_has_one_place(offset: int, size: int, count: int) -> None:
    index, inside = locate_striped_byte(offset, size, count)
    assert 0 <= index < count
    assert compute_striped_offset(index, inside, size, count) == offset


@given(st.integers(0, 300), st.integers(0, 300), SIZES, COUNTS)
def test_segments_cover_a_request_once(offset: int, length: int, size: int, count: int) -> None:
    covered: dict[int, tuple[int, int]] = {}
    for segment in split_striped_range(offset, length, size, count):
        at = segment.offset
        for start, stop in segment.pieces:
            for byte in range(start, stop):
                assert byte not in covered
                covered[byte] = (segment.number, at)
                at += 1
        assert at - segment.offset == segment.length
    assert covered == {byte: locate_striped_byte(offset + byte, size, count) for byte in range(length)}


@given(st.integers(0, 400), SIZES, COUNTS)
def test_sizes_of_objects(end: int, size: int, count: int) -> None:
    expected = [0] * count
    for byte in range(end):
        index, inside = locate_striped_byte(byte, size, count)
        expected[index] = max(expected[index], inside + 1)
    assert [compute_stripe_object_size(index, end, size, count) for index in range(count)] == expected
    assert max(compute_striped_end(index, length, size, count) for index, length in enumerate(expected)) == end


def test_a_large_request_is_cut_into_windows() -> None:
    found = list(split_striped_range(5, 4096 * 5000, 4096, 3))
    assert max(len(segment.pieces) for segment in found) <= 512
    assert sum(segment.length for segment in found) == 4096 * 5000
