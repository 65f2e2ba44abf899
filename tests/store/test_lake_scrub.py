"""Damage is never read as data: a flipped byte is found before a read and by the scrub, repaired or named."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from fairlead.cli.main import main
from fairlead.core.errors import DamagedLakeError, LakeError
from fairlead.core.model.tables import HEALTH, OPS, build_table_batch
from fairlead.store import backup, scrub, scrub_repair
from fairlead.store import delta_table as delta
from fairlead.store.checksums import CheckedFiles, open_checked_files, parse_checksum_name
from fairlead.store.compaction import compact_tables
from fairlead.store.lake import Lake
from fairlead.store.log_checksums import NAME as LOG_SUMS
from fairlead.store.rollups import derive_rollups
from fairlead.store.scrub_ledger import build_ledger_path
from lake_rows import DAY_ONE, fill, ops_of

SECOND_NS = 1_000_000_000


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))


def health(*nodes: str) -> pa.RecordBatch:
    count = len(nodes)
    columns = {"ts_ns": [DAY_ONE] * count, "node": list(nodes), "probe": ["agent"] * count, "state": ["ok"] * count}
    return build_table_batch(HEALTH, columns)


def filled(root: Path, inputs: int = 3) -> Lake:
    lake = Lake.open(root, create=True)
    with lake.open_writer(derive=derive_rollups) as writer:
        for job in range(inputs):
            fill(writer.open_batch("test", job), job).commit()
        batch = writer.open_batch("more", 0)
        batch.add(health("n1"))
        batch.commit()
    return lake


def forget() -> None:
    """As a new process would: nothing was checked yet."""
    from fairlead.store import checksums

    checksums._checked.clear()


def reopened(lake: Lake) -> Lake:
    forget()
    return Lake.open(lake.place.root)


def files_of(lake: Lake, table: str) -> list[Path]:
    return [one.path for one in scrub.list_shard_files(lake.place, "main") if one.table == table]


def scrubbed(lake: Lake) -> scrub.Ledger:
    ledger = scrub.check_shard(lake.place, "main", scrub.Pace(None), again=True)
    assert ledger is not None
    return ledger


def test_every_file_has_its_checksum_in_its_name_after_writing_and_after_merging(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    assert all(parse_checksum_name(one.name) for one in scrub.list_shard_files(lake.place, "main"))
    with lake.open_writer() as writer:
        fill(writer.open_batch("again", 99), 99).commit()
        compact_tables(lake, writer)
    files = scrub.list_shard_files(lake.place, "main")
    for one in files:
        named = parse_checksum_name(one.name)
        assert named is not None
        assert not named[1]
        assert one.part.size == one.path.stat().st_size
    assert scrubbed(lake).damaged == {}


def read(lake: Lake, table: str) -> None:
    if table == "_batches":
        lake.open_writer().close()
    else:
        lake.query(f"SELECT * FROM {table}")  # noqa: S608


@pytest.mark.parametrize(
    "table", ["ops", "files", "file_counters", "layouts", "events", "rollup", "health", "_batches"]
)
def test_a_flipped_byte_anywhere_in_a_file_of_a_table_is_an_error_before_it_is_an_answer(
    tmp_path: Path, table: str
) -> None:
    lake = filled(tmp_path / "lake")
    paths = files_of(lake, table)
    before = paths[0].read_bytes()
    places = random.Random(7)
    for at in [0, 4, len(before) // 2, len(before) - 5, *(places.randrange(len(before)) for _ in range(12))]:
        flip(paths[0], at, places.randrange(8))
        fresh = reopened(lake)
        with pytest.raises(DamagedLakeError) as told:
            read(fresh, table)
        assert told.value.where == str(paths[0])
        assert "scrub --from" in told.value.remedy
        assert list(scrubbed(fresh).damaged) == [str(paths[0].relative_to(lake.place.root))]
        paths[0].write_bytes(before)
    fresh = reopened(lake)
    assert scrubbed(fresh).damaged == {}
    assert fresh.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 150}]


def test_a_flipped_byte_in_the_log_of_a_table_is_an_error_before_it_is_an_answer(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    with lake.open_writer() as writer:
        for turn in range(3):
            fill(writer.open_batch("test", 10 + turn), 10 + turn).commit()
            writer.flush()
    folder = lake.place.build_table_path("main", "ops")
    places = random.Random(5)
    for path in sorted((folder / "_delta_log").glob("*.json")):
        before = path.read_bytes()
        for at in [0, len(before) - 2, *(places.randrange(len(before)) for _ in range(6))]:
            flip(path, at, places.randrange(7))
            with pytest.raises(LakeError):
                reopened(lake).query("SELECT count(*) FROM ops")
            assert str(path.relative_to(lake.place.root)) in scrubbed(reopened(lake)).damaged
            path.write_bytes(before)
    assert reopened(lake).query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 300}]


def test_a_checkpoint_is_checked_and_given_up_where_the_entries_before_it_say_the_same(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    with lake.open_writer() as writer, writer.open_table(OPS) as table:
        delta.vacuum_delta_files(table, 24)
    folder = lake.place.build_table_path("main", "ops")
    checkpoint = next((folder / "_delta_log").glob("*.checkpoint.parquet"))
    flip(checkpoint, checkpoint.stat().st_size // 2)
    with pytest.raises(DamagedLakeError):
        reopened(lake).query("SELECT count(*) FROM ops")
    ledger = scrubbed(lake)
    assert [one.kind for one in ledger.damaged.values()] == ["log"]
    scrub_repair.accept_losses(lake, "main", list(ledger.damaged.values()))
    assert reopened(lake).query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 150}]
    assert scrubbed(lake).damaged == {}


def test_a_reader_checks_a_file_once_and_again_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.store import checksums

    lake = filled(tmp_path / "lake")
    counted: list[str] = []
    real = checksums.compute_file_checksum
    monkeypatch.setattr(
        checksums, "compute_file_checksum", lambda path, *a: (counted.append(str(path)), real(path, *a))[1]
    )
    path = files_of(lake, "ops")[0]
    checked = CheckedFiles()
    for _ in range(3):
        checked.check([str(path)])
    assert counted == [str(path)]
    flip(path, 100)
    with pytest.raises(DamagedLakeError):
        checked.check([str(path)])


def test_what_the_scrub_has_checked_other_processes_need_not_check_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.store import checksums

    lake = filled(tmp_path / "lake")
    scrubbed(lake)
    forget()
    counted: list[str] = []
    monkeypatch.setattr(checksums, "compute_file_checksum", lambda path, *_: counted.append(str(path)) or "")
    path = files_of(lake, "ops")[0]
    open_checked_files(lake.place.root).check([str(path)])
    assert counted == []
    flip(path, 50)
    with pytest.raises(DamagedLakeError):
        open_checked_files(lake.place.root).check([str(path)])


def test_merging_leaves_a_damaged_file_alone_and_says_so(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    with lake.open_writer() as writer:
        fill(writer.open_batch("test", 10), 10).commit()
    path = files_of(lake, "ops")[0]
    flip(path, 200)
    forget()
    with lake.open_writer() as writer, pytest.raises(DamagedLakeError):
        compact_tables(lake, writer)
    assert path in files_of(lake, "ops")
    assert len(files_of(lake, "files")) == 1, "the other tables were merged"


def test_a_scrub_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    files = scrub.list_shard_files(lake.place, "main")
    seen: list[int] = []

    class Stopping(scrub.Pace):
        def __call__(self, count: int) -> None:
            super().__call__(count)
            seen.append(count)
            if len(seen) % 40 == 0:
                raise scrub.StoppedError

    rounds = 0
    pace = Stopping(None)
    while rounds < 20:
        rounds += 1
        try:
            ledger = scrub.check_shard(lake.place, "main", pace, again=rounds == 1)
        except scrub.StoppedError:
            continue
        break
    assert ledger is not None
    assert ledger.finished_ns is not None
    assert len(ledger.checked) == len(files)
    assert scrub.check_shard(lake.place, "main", scrub.Pace(None)) == ledger, "nothing is due for a week"


def test_a_file_is_repaired_byte_for_byte_from_a_backup(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    backup.backup_lake(lake.place, tmp_path / "backup")
    rows = lake.query("SELECT * FROM ops ORDER BY ALL")
    path = files_of(lake, "ops")[0]
    entry = sorted((path.parent.parent / "_delta_log").glob("*.json"))[-1]
    before = path.read_bytes(), entry.read_bytes()
    flip(path, len(before[0]) // 2)
    flip(entry, 30)
    forget()
    arguments = ["lake", "scrub", "--lake", str(lake.place.root), "--json"]
    assert run(arguments) == 7
    assert run([*arguments, "--from", str(tmp_path / "backup")]) == 7, "the table could not be looked through"
    assert run([*arguments, "--from", str(tmp_path / "backup")]) == 0
    assert (path.read_bytes(), entry.read_bytes()) == before
    assert reopened(lake).query("SELECT * FROM ops ORDER BY ALL").equals(rows)


def test_a_damaged_copy_repairs_nothing_and_a_damaged_file_is_not_backed_up(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    shutil.copytree(lake.place.root, tmp_path / "copy")
    path = files_of(lake, "ops")[0]
    flip(path, 300)
    flip(tmp_path / "copy" / path.relative_to(lake.place.root), 301)
    damage = next(iter(scrubbed(lake).damaged.values()))
    assert not scrub_repair.repair_damage(lake, damage, tmp_path / "copy")
    with pytest.raises(DamagedLakeError):
        backup.backup_lake(lake.place, tmp_path / "backup")


def big(root: Path) -> Lake:
    """Two row groups of `ops`: each of its own node."""
    lake = Lake.open(root, create=True)
    with lake.open_writer() as writer:
        batch = writer.open_batch("big", 0)
        for number, node in enumerate(("n1", "n2")):
            batch.add(ops_of(number, 122_880, node=node))
        batch.add(health("n1", "n3"))
        batch.commit()
    return lake


def test_of_a_file_that_is_given_up_whole_row_groups_stay_and_the_rest_is_named(tmp_path: Path) -> None:
    from pyarrow import parquet

    lake = big(tmp_path / "lake")
    (path,) = files_of(lake, "ops")
    with parquet.ParquetFile(path) as file:
        assert file.num_row_groups == 2
        column = file.metadata.row_group(1).column(file.schema_arrow.names.index("offset"))
    flip(path, column.data_page_offset + column.total_compressed_size - 1)
    forget()
    assert run(["lake", "scrub", "--lake", str(lake.place.root), "--accept-loss", "--json"]) == 0
    fresh = reopened(lake)
    assert fresh.query("SELECT node, count(*) AS n FROM ops GROUP BY 1").to_pylist() == [{"node": "n1", "n": 122_880}]
    events = fresh.query("SELECT component, kind, ts_ns, text FROM events ORDER BY kind").to_pylist()
    assert [(one["component"], one["kind"]) for one in events] == [("n2", "gap"), ("ops", "records_lost")]
    assert all("122880 rows of ops" in one["text"] and one["ts_ns"] == DAY_ONE for one in events)
    assert run(["lake", "scrub", "--lake", str(lake.place.root), "--accept-loss", "--json"]) == 0
    assert len(reopened(lake).query("SELECT * FROM events")) == 2


def test_where_whose_rows_are_lost_is_not_known_every_source_of_the_time_has_a_gap(tmp_path: Path) -> None:
    lake = big(tmp_path / "lake")
    (path,) = files_of(lake, "ops")
    path.unlink()
    forget()
    with pytest.raises(DamagedLakeError, match="gone"):
        reopened(lake).query("SELECT count(*) FROM ops")
    assert run(["lake", "scrub", "--lake", str(lake.place.root), "--accept-loss", "--json"]) == 0
    fresh = reopened(lake)
    assert fresh.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 0}]
    gaps = fresh.query("SELECT component FROM events WHERE kind = 'gap' ORDER BY 1").column(0).to_pylist()
    assert gaps == ["n1", "n3"]


def test_what_is_known_of_batches_can_be_given_up_so_that_the_server_starts(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    flip(files_of(lake, "_batches")[0], 60)
    forget()
    with pytest.raises(DamagedLakeError):
        lake.open_writer()
    assert run(["lake", "scrub", "--lake", str(lake.place.root), "--accept-loss", "--json"]) == 0
    lake.open_writer().close()
    assert lake.query("SELECT count(*) AS n FROM ops").to_pylist() == [{"n": 150}]


def without_sums(lake: Lake) -> int:
    """Makes the files as an older fairlead wrote them: no checksums in names, none of the logs."""
    renamed = 0
    for name in lake.place.list_tables("main"):
        folder = lake.place.build_table_path("main", name)
        (folder / LOG_SUMS).unlink()
        for path in folder.glob("*/*.parquet"):
            if path.parent.name == "_delta_log":
                continue
            named = parse_checksum_name(path.name)
            assert named is not None
            short = path.name.replace(f"-{named[0]}", "")
            for entry in (folder / "_delta_log").glob("*.json"):
                entry.write_text(entry.read_text().replace(path.name, short))
            path.rename(path.with_name(short))
            renamed += 1
    return renamed


def test_files_of_an_older_fairlead_get_checksums_and_are_unverified_before(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    rows = lake.query("SELECT * FROM ops ORDER BY ALL")
    old = without_sums(lake)
    fresh = reopened(lake)
    assert fresh.query("SELECT * FROM ops ORDER BY ALL").equals(rows)
    assert scrubbed(fresh).unsealed_files == old
    assert run(["lake", "scrub", "--lake", str(lake.place.root), "--json"]) == 0
    ledger = scrubbed(fresh)
    assert (ledger.unsealed_files, ledger.unverified_files) == (0, old)
    assert len(ledger.checked) == old
    fresh = reopened(lake)
    assert fresh.query("SELECT * FROM ops ORDER BY ALL").equals(rows)
    flip(files_of(fresh, "ops")[0], 90)
    with pytest.raises(DamagedLakeError):
        reopened(lake).query("SELECT * FROM ops")


def test_a_ledger_that_is_damaged_is_begun_again(tmp_path: Path) -> None:
    lake = filled(tmp_path / "lake")
    scrubbed(lake)
    path = build_ledger_path(lake.place, "main")
    path.write_text("{" + path.read_text())
    ledger = scrubbed(lake)
    assert len(ledger.checked) == ledger.files > 0


def run(arguments: list[str]) -> int:
    return main(arguments)
