"""What every source must do with content that is its own, foreign or damaged, as a pytest class with two fixtures:
`class TestMine(SourceContract)` with `source` and `samples`.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from fairlead.core.errors import FairleadError, InputError, SourceDefectError
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import TABLES
from fairlead.see.sources.base import HEAD_BYTES, Item, JoinableSource, Source
from fairlead.see.sources.inputs import read_input_head

FOREIGN: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"\0",
    "zeros": bytes(HEAD_BYTES),
    "random bytes": Random(7).randbytes(HEAD_BYTES),
    "a sentence": b"The quick brown fox jumps over the lazy dog.\n" * 20,
    "an ELF program": b"\x7fELF\x02\x01\x01" + bytes(200),
    "a PNG": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "an empty JSON document": b"{}\n",
    "JSON of something else": b'{"name": "x", "values": [1, 2, 3]}\n',
    "CSV of something else": b"colour,size\nred,1\n",
    "HTML": b"<!doctype html><title>x</title>\n",
    "UTF-16": "ts,host,value\n".encode("utf-16"),
}
"""Heads that no source may take for its own."""
_MAX_READ = 8
"""A file is read at most this many times over (plus a mebibyte): to look at its head, then at all of it."""


@dataclass(frozen=True)
class Sample:
    """A small, whole file of the format. `rows`: how many it holds by table, where that is known without the source."""

    path: Path
    rows: dict[str, int] = field(default_factory=dict)


def _summarise_items(items: Iterable[Item]) -> tuple[dict[str, pa.Table], list[Job], list[Missing]]:
    """Rows by table, jobs, and what is missing. Fails for an item that is none of these, or of no table."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    jobs: list[Job] = []
    missing: list[Missing] = []
    for item in items:
        if isinstance(item, pa.RecordBatch):
            name = (item.schema.metadata or {}).get(b"fairlead.table", b"").decode()
            assert name in TABLES, f"a batch of no record table: {name!r}"
            assert item.schema.names == TABLES[name].schema.names, f"columns of {name}"
            item.validate(full=True)
            for column in TABLES[name].schema:
                if not column.nullable:
                    assert item.column(column.name).null_count == 0, f"{name}.{column.name} is required and null"
            batches.setdefault(name, []).append(item)
        elif isinstance(item, Job):
            jobs.append(item)
        else:
            assert isinstance(item, Missing), f"{type(item).__name__} is no item of a source"
            missing.append(item)
    tables = {
        name: pa.concat_tables([pa.Table.from_batches([b]).unify_dictionaries() for b in found])
        for name, found in batches.items()
    }
    return {name: _plain(table) for name, table in tables.items()}, jobs, missing


def _plain(table: pa.Table) -> pa.Table:
    """`table` without dictionaries, whose codes depend on how it was cut into batches."""
    plain = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain)).combine_chunks()


def _read_tolerant(source: Source, path: Path) -> tuple[dict[str, int], list[Missing], FairleadError | None]:
    """Rows by table, what is missing, and the error that ended the reading, of a file that may be damaged."""
    rows: Counter[str] = Counter()
    missing: list[Missing] = []
    try:
        for item in source.read(path):
            tables, _, gaps = _summarise_items([item])
            rows.update({name: table.num_rows for name, table in tables.items()})
            missing += gaps
    except SourceDefectError:
        raise
    except InputError as error:
        return dict(rows), missing, error
    return dict(rows), missing, None


class SourceContract:
    """Accepting, reading, damage. A subclass gives the fixtures `source` and `samples` (at least one `Sample`)."""

    cuts = (0.1, 0.35, 0.6, 0.85, 0.99)
    """Where files are cut off, as a part of their size."""
    keeps_read_rows = True
    """Whether a file cut off gives a beginning of its rows; False for a format whose index is at its end."""

    # Accepting

    def test_its_name_is_one_word(self, source: Source) -> None:
        assert source.name.isidentifier()
        assert source.name == source.name.lower()

    def test_samples_are_accepted_by_content_whatever_their_name(
        self, source: Source, samples: list[Sample], tmp_path: Path
    ) -> None:
        assert samples
        for number, sample in enumerate(samples):
            other_name = tmp_path / f"renamed_{number}.bin"
            other_name.write_bytes(sample.path.read_bytes())
            assert source.accepts(read_input_head(sample.path), sample.path)
            assert source.accepts(read_input_head(other_name), other_name)

    @pytest.mark.parametrize("what", FOREIGN)
    def test_foreign_content_is_not_accepted(self, source: Source, what: str) -> None:
        assert not source.accepts(FOREIGN[what], Path("/nowhere/foreign")), what

    def test_any_part_of_a_head_is_judged_without_an_error(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            head = read_input_head(sample.path)
            for size in {*range(64), *range(64, len(head), 97)}:
                assert source.accepts(head[:size], sample.path) in (True, False)

    # Reading

    def test_every_row_is_read_once(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            tables, jobs, missing = _summarise_items(source.read(sample.path))
            assert tables or jobs or missing, f"{sample.path}: nothing at all"
            rows = {name: table.num_rows for name, table in tables.items()}
            assert sample.rows.items() <= rows.items(), sample.path

    def test_reading_again_gives_the_same(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            assert _summarise_items(source.read(sample.path)) == _summarise_items(source.read(sample.path))

    def test_readings_at_the_same_time_do_not_mix(self, source: Source, samples: list[Sample]) -> None:
        """Item by item in turn, the way several jobs are read by one instance."""
        paths = [sample.path for sample in samples] * 2
        alone = [_summarise_items(source.read(path)) for path in paths]
        running = [source.read(path) for path in paths]
        got: list[list[Item]] = [[] for _ in paths]
        waiting = list(range(len(paths)))
        while waiting:
            for place in list(waiting):
                item = next(running[place], None)
                if item is None:
                    waiting.remove(place)
                else:
                    got[place].append(item)
        assert [_summarise_items(items) for items in got] == alone

    def test_nothing_is_read_before_it_is_asked_for(self, source: Source, tmp_path: Path) -> None:
        """`read` of a file that is not there raises when the first item is asked for, with the place."""
        items = source.read(tmp_path / "absent")
        with pytest.raises((InputError, OSError)) as caught:
            next(iter(items))
        assert str(tmp_path / "absent") in str(caught.value)

    def test_a_file_is_not_read_many_times(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            _summarise_items(source.read(sample.path))  # imports and compiled code are read once
            before = _count_bytes_read()
            _summarise_items(source.read(sample.path))
            assert _count_bytes_read() - before <= _MAX_READ * sample.path.stat().st_size + (1 << 20)

    def test_a_file_is_left_as_it_was(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            before = (sample.path.stat().st_mtime_ns, zlib.crc32(sample.path.read_bytes()), _names_beside(sample.path))
            _summarise_items(source.read(sample.path))
            after = (sample.path.stat().st_mtime_ns, zlib.crc32(sample.path.read_bytes()), _names_beside(sample.path))
            assert after == before

    def test_a_reading_that_is_given_up_closes_its_file(self, source: Source, samples: list[Sample]) -> None:
        for sample in samples:
            items = source.read(sample.path)
            next(iter(items), None)
            if hasattr(items, "close"):
                items.close()
            del items
            assert str(sample.path.resolve()) not in set(_open_files())

    def test_where_a_file_belongs_is_the_same_each_time(self, source: Source, samples: list[Sample]) -> None:
        if not isinstance(source, JoinableSource):
            pytest.skip("its files stand alone")
        for sample in samples:
            head = read_input_head(sample.path)
            origin = source.find_origin(sample.path, head)
            assert origin == source.find_origin(sample.path, head)
            assert origin.apart_ns >= 0

    # Damage

    def test_a_file_cut_off_ends_cleanly(self, source: Source, samples: list[Sample], tmp_path: Path) -> None:
        for sample in samples:
            whole, _, _ = _read_tolerant(source, sample.path)
            content = sample.path.read_bytes()
            for part in self.cuts:
                cut = tmp_path / f"cut_{sample.path.name}"
                cut.write_bytes(content[: int(len(content) * part)])
                rows, _, error = _read_tolerant(source, cut)
                assert all(count <= whole.get(name, 0) for name, count in rows.items()), f"more rows than in {cut}"
                _check_place(error, cut)

    def test_damage_is_said_with_its_place(self, source: Source, samples: list[Sample], tmp_path: Path) -> None:
        """Whatever bytes are overwritten: rows, a `Missing`, an InputError that names the file; never another error."""
        for sample in samples:
            content = sample.path.read_bytes()
            for seed in range(8):
                random = Random(seed)
                broken = bytearray(content)
                at = random.randrange(len(content))
                broken[at : at + 64] = random.randbytes(len(broken[at : at + 64]))
                path = tmp_path / f"broken_{seed}_{sample.path.name}"
                path.write_bytes(broken)
                _, missing, error = _read_tolerant(source, path)
                _check_place(error, path)
                for gap in missing:
                    assert gap.kind
                    assert gap.what
                    assert gap.why
                    assert gap.where is None or gap.where.startswith(str(path)), "a place other than the file"

    def test_garbage_is_an_error_with_its_place(self, source: Source, tmp_path: Path) -> None:
        path = tmp_path / "garbage"
        path.write_bytes(Random(11).randbytes(4096))
        rows, missing, error = _read_tolerant(source, path)
        assert not rows
        assert error is not None or missing
        _check_place(error, path)


def _check_place(error: FairleadError | None, path: Path) -> None:
    if error is not None:
        assert error.where is not None, f"no place: {error}"
        assert str(path) in error.where
        assert error.what


def _count_bytes_read() -> int:
    with open("/proc/self/io", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("rchar"))


def _names_beside(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def _open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the listing's own descriptor
            continue
