"""Damaged Darshan logs: whatever bytes are cut or changed, reading gives items or a clear error, and little memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from darshan_bytes import HEADER, REGIONS_AT, regions_of, repacked
from fairlead.core.errors import CorruptInputError, FairleadError, InputError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.see.sources.darshan import DarshanSource

SMALL = ("one_1_16m", "python_1", "ior_mpiio_4")


def attempt(path: Path, content: bytes) -> list[object] | FairleadError:
    """What reading gives; anything but items or an error of ours is a failure of the test."""
    path.write_bytes(content)
    failure: InputError | None = None
    try:
        items = list(DarshanSource().read(path))
    except InputError as error:
        failure = error
    if failure is not None:
        assert str(path) in str(failure)
        assert failure.remedy
        return failure
    assert isinstance(items[0], Job)
    for item in items[1:]:
        assert isinstance(item, pa.RecordBatch | Missing)
        if isinstance(item, pa.RecordBatch):
            item.validate(full=True)
    return items


def rows(items: list[object]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for item in items:
        if isinstance(item, pa.RecordBatch):
            table = item.schema.metadata[b"fairlead.table"].decode()
            counted[table] = counted.get(table, 0) + item.num_rows
    return counted


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("compression", [1, 2])
def test_other_compressions_give_the_same_rows(fixtures: Path, tmp_path: Path, name: str, compression: int) -> None:
    original = (fixtures / "darshan" / f"{name}.darshan").read_bytes()
    plain = attempt(tmp_path / "a", original)
    other = attempt(tmp_path / "b", repacked(original, compression))
    assert isinstance(plain, list)
    assert isinstance(other, list)
    batches = [[i for i in items if isinstance(i, pa.RecordBatch)] for items in (plain, other)]
    assert len(batches[0]) == len(batches[1]) > 3
    assert all(a.equals(b) for a, b in zip(*batches, strict=True))


@pytest.mark.parametrize("name", SMALL)
def test_a_log_cut_anywhere_gives_what_is_left_or_a_clear_error(
    fixtures: Path, tmp_path: Path, name: str, thorough: bool
) -> None:
    content = (fixtures / "darshan" / f"{name}.darshan").read_bytes()
    whole = rows(attempt(tmp_path / "log", content))  # type: ignore[arg-type]
    job = regions_of(content)[0]
    path = tmp_path / "log"
    for cut in range(0, len(content), (1 if len(content) < 4000 else 7) * (1 if thorough else 13)):
        result = attempt(path, content[:cut])
        if cut < sum(job):
            assert isinstance(result, InputError), cut
        else:
            assert isinstance(result, list), cut
            assert any(isinstance(i, Missing) and i.kind == "truncated" for i in result), cut
            assert all(count <= whole.get(table, 0) + 20 for table, count in rows(result).items()), cut


@pytest.mark.parametrize("name", SMALL)
def test_a_changed_byte_never_passes_unnoticed_in_checked_data(
    fixtures: Path, tmp_path: Path, name: str, thorough: bool
) -> None:
    content = (fixtures / "darshan" / f"{name}.darshan").read_bytes()
    path = tmp_path / "log"
    modules = regions_of(content)[2:]
    for at in range(0, len(content), (2 if len(content) < 3000 else 7) * (1 if thorough else 11)):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        result = attempt(path, bytes(changed))
        if any(offset <= at < offset + length for offset, length in modules):
            assert isinstance(result, list), at
            assert any(isinstance(i, Missing) and i.kind == "truncated" for i in result), at


EXTREMES = [0, 1, 2, 0x7F, 0xFF, 1 << 31, (1 << 31) - 1, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
NUMBERS = st.one_of(st.sampled_from(EXTREMES), st.integers(0, (1 << 64) - 1))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(SMALL),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), NUMBERS, st.booleans()), min_size=1, max_size=6),
)
def test_absurd_numbers_anywhere_are_met_calmly(
    fixtures: Path, tmp_path: Path, name: str, changes: list[tuple[float, int, bool]]
) -> None:
    content = bytearray(repacked((fixtures / "darshan" / f"{name}.darshan").read_bytes(), 2))
    for where, number, aligned in changes:
        at = int(where * (len(content) - 8))
        struct.pack_into("<Q", content, at - at % 8 if aligned else at, number)
    attempt(tmp_path / "log", bytes(content))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(24, HEADER.size - 8), number=NUMBERS, name=st.sampled_from(SMALL))
def test_absurd_regions_are_met_calmly(fixtures: Path, tmp_path: Path, where: int, number: int, name: str) -> None:
    content = bytearray((fixtures / "darshan" / f"{name}.darshan").read_bytes())
    struct.pack_into("<Q", content, where, number)
    attempt(tmp_path / "log", bytes(content))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=4000), wide=st.booleans(), order=st.sampled_from("<>"), compression=st.integers(0, 3))
def test_noise_behind_a_good_magic_is_met_calmly(
    tmp_path: Path, tail: bytes, wide: bool, order: str, compression: int
) -> None:
    head = (b"3.41" if wide else b"3.10").ljust(8, b"\0") + struct.pack(f"{order}qB", 6567223, compression)
    attempt(tmp_path / "log", head + tail)


def bomb(fixtures: Path, plain_bytes: int) -> bytes:
    """A log whose first module region inflates to `plain_bytes` zeros."""
    content = (fixtures / "darshan" / "one_1_16m.darshan").read_bytes()
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(plain_bytes >> 20)) + packer.flush()
    changed = bytearray(content)
    offset, length = regions_of(content)[2]
    slot = content.find(struct.pack("<QQ", offset, length), REGIONS_AT)
    struct.pack_into("<QQ", changed, slot, len(content), len(packed))
    return bytes(changed) + packed


def test_a_bomb_is_refused(fixtures: Path, tmp_path: Path) -> None:
    error = attempt(tmp_path / "log", bomb(fixtures, 512 << 20))
    assert isinstance(error, CorruptInputError)
    assert "inflates beyond" in error.what


LIMITED = """
import resource, sys
from pathlib import Path
import pyarrow
from fairlead.core.errors import CorruptInputError
from fairlead.see.sources.darshan import DarshanSource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    for item in DarshanSource().read(Path(sys.argv[1])):
        pass
except CorruptInputError:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is measured on Linux")
def test_a_bomb_takes_little_memory(fixtures: Path, tmp_path: Path) -> None:
    path = tmp_path / "bomb.darshan"
    path.write_bytes(bomb(fixtures, 600 << 20))
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert int(run.stdout) < 400
