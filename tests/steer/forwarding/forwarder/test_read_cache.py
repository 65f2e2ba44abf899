"""The read cache: never an old byte, read-ahead that helps when it fits and thrashes when it does not; job settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from fairlead.core.errors import ConfigError
from fairlead.decide.policies.requests import METADATA, Rate, Running, Waiting, build_discipline
from fairlead.steer.forwarding.forwarder.job_settings import JobSettings, read_job_settings
from fairlead.steer.forwarding.forwarder.read_cache import BLOCK, CachingTree, with_read_cache
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.fs.trees.directory import DirectoryTree
from waiting import PATIENCE_S

KIB, MIB = 1 << 10, 1 << 20
LONG_AGO = 1_600_000_000


def settings(folder: Path, text: str) -> JobSettings:
    file = folder.parent / f"{folder.name}.toml"
    file.write_text(text, encoding="utf-8")
    return read_job_settings(file)


def made(folder: Path, name: str, size: int) -> bytes:
    """A file that was not touched for long (a fresh one is not cached)."""
    content = Random(name).randbytes(size)
    (folder / name).write_bytes(content)
    os.utime(folder / name, (LONG_AGO, LONG_AGO))
    return content


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


_trees: list[DirectoryTree] = []


def directory(folder: Path) -> DirectoryTree:
    """A tree that is closed when the test ends."""
    _trees.append(DirectoryTree(folder))
    return _trees[-1]


@pytest.fixture(autouse=True)
def trees_are_closed() -> Iterator[None]:
    yield
    while _trees:
        _trees.pop().close()


def caching(folder: Path, text: str = '[default]\nread_ahead = "1M"', *, sole: bool = False) -> CachingTree:
    return CachingTree(directory(folder), settings(folder, text), sole=sole)


@pytest.fixture(autouse=True)
def everything_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made by a test are seconds old at most by their ctime; a test would have to wait for them."""
    from fairlead.steer.forwarding.forwarder import read_cache

    real = read_cache.now_ns
    monkeypatch.setattr(read_cache, "now_ns", lambda: real() + 1_000_000_000)


def opened(tree: CachingTree, name: bytes, flags: int = os.O_RDWR):
    return tree.open(tree.lookup(ROOT, name)[0], flags)


def read(file, offset: int, size: int) -> bytes:
    buffer = memoryview(bytearray(size))
    return bytes(buffer[: file.read_into(buffer, offset)])


def test_reads_in_order_come_from_few_reads_of_the_tree(folder: Path) -> None:
    content = made(folder, "a", 3 * MIB + 5)
    tree = caching(folder)
    file = opened(tree, b"a")
    found = b"".join(read(file, place, 4 * KIB) for place in range(0, 3 * MIB + 4 * KIB, 4 * KIB))
    assert found == content
    assert read(file, 3 * MIB + 5, 100) == b""
    counters = tree.cache.read_counters()
    assert counters.misses <= 5
    assert counters.hits >= 3 * 256 - 4
    assert counters.tree_bytes == counters.asked_bytes == len(content)
    assert counters.amplification == 1.0


def test_another_handle_finds_what_the_first_read(folder: Path) -> None:
    content = made(folder, "a", MIB)
    tree = caching(folder)
    first, second = opened(tree, b"a"), opened(tree, b"a")
    assert read(first, 0, MIB) == read(second, 0, MIB) == content
    assert read(second, 300_000, 10) == content[300_000:300_010]
    assert tree.cache.read_counters().tree_bytes == MIB
    first.close()
    second.close()
    assert read(opened(tree, b"a"), 5, 10) == content[5:15]
    assert tree.cache.read_counters().tree_bytes == MIB


def test_random_reads_bring_nothing_into_the_cache(folder: Path) -> None:
    content = made(folder, "a", 4 * MIB)
    tree = caching(folder)
    file = opened(tree, b"a")
    random = Random(3)
    for _ in range(50):
        place = random.randrange(1, 4 * MIB - 4096)
        assert read(file, place, 4096) == content[place : place + 4096]
    assert tree.cache.bytes == 0
    assert tree.cache.read_counters().amplification == 1.0


def test_too_much_read_ahead_thrashes_and_less_cures_it(folder: Path) -> None:
    """Beacon: 40 MiB ahead in every file, and together they do not fit."""
    for number in range(8):
        made(folder, f"f{number}", 2 * MIB)

    def amplification(ahead: str) -> tuple[float, int]:
        tree = caching(folder, f'[default]\nread_ahead = "{ahead}"\n[cache]\nsize = "4M"')
        files = [opened(tree, b"f%d" % number) for number in range(8)]
        for place in range(0, 2 * MIB, 128 * KIB):
            for file in files:
                assert len(read(file, place, 128 * KIB)) == 128 * KIB
        counters = tree.cache.read_counters()
        assert tree.cache.bytes <= 4 * MIB
        return counters.amplification, counters.discards

    thrashing, discards = amplification("40M")
    assert thrashing > 3
    assert discards > 0
    assert amplification("256K")[0] == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_never_an_old_byte(folder: Path, seed: int) -> None:
    """Reads through the cache beside writes through it, past it, truncations and replacements, against a plain file."""
    made(folder, "a", MIB)
    tree = caching(folder, f'[default]\nread_ahead = "{(128, 512, 4096)[seed % 3]}K"\n[cache]\nsize = "700K"')
    random = Random(seed)
    files = [opened(tree, b"a") for _ in range(3)]
    places = [0, 0, 0]
    with (folder / "a").open("r+b", buffering=0) as past:
        for step in range(400):
            kind = random.randrange(10)
            number = random.randrange(3)
            size = past.seek(0, os.SEEK_END)
            if kind < 6:
                if random.random() < 0.2:
                    places[number] = random.randrange(max(1, size))
                length = random.randrange(1, 200 * KIB)
                found = read(files[number], places[number], length)
                past.seek(places[number])
                assert found == past.read(length), f"step {step}"
                places[number] += len(found)
            elif kind < 8:
                data = random.randbytes(random.randrange(1, 5000))
                files[number].write_from(memoryview(data), random.randrange(size + 1000))
            elif kind == 8:
                # Another forwarder writes: its change has a time that differs from what was settled.
                past.seek(random.randrange(size + 1))
                past.write(random.randbytes(3000))
                os.utime(folder / "a", ns=(0, (LONG_AGO + 1 + step) * 1_000_000_000))
            else:
                files[number].truncate(random.randrange(MIB))


@pytest.mark.parametrize("seed", range(3))
def test_never_an_old_byte_when_alone(folder: Path, seed: int) -> None:
    """Nobody else changes the tree: files are not asked whether they have changed, replaced ones included."""
    tree = caching(folder, '[default]\nread_ahead = "512K"\n[cache]\nsize = "700K"', sole=True)
    random = Random(seed)
    file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)[2]
    content = bytearray()
    place = 0
    for step in range(400):
        kind = random.randrange(20)
        if kind < 12:
            place = 0 if random.random() < 0.2 else place
            found = read(file, place, 50_000)
            assert found == content[place : place + 50_000], f"step {step}"
            place += len(found)
        elif kind < 18:
            at, data = random.randrange(len(content) + 2000), random.randbytes(random.randrange(1, 60_000))
            file.write_from(memoryview(data), at)
            content.extend(bytes(max(0, at + len(data) - len(content))))
            content[at : at + len(data)] = data
        elif kind == 18:
            size = random.randrange(300_000)
            file.truncate(size)
            del content[size:]
            content.extend(bytes(size - len(content)))
        else:
            file.close()
            tree.unlink(ROOT, b"a")
            file = tree.create(ROOT, b"a", os.O_RDWR, 0o644)[2]
            content.clear()
            place = 0


def test_fresh_changes_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one tick of the clock two changes have the same time: nothing is kept until it has passed."""
    from fairlead.steer.forwarding.forwarder import read_cache

    (folder / "a").write_bytes(bytes(MIB))
    changed = (folder / "a").stat().st_ctime_ns
    monkeypatch.setattr(read_cache, "now_ns", lambda: changed + 1_000_000)
    tree = caching(folder)
    file = opened(tree, b"a")
    read(file, 0, 4 * KIB)
    assert tree.cache.bytes == 0
    assert tree.cache.read_counters().tree_bytes == 4 * KIB


def test_writers_and_readers_beside_each_other(folder: Path) -> None:
    """A reader sees each 4 KiB as one of the writers left it, and after their end exactly the last."""
    (folder / "a").write_bytes(bytes(MIB))
    tree = caching(folder, '[default]\nread_ahead = "256K"\n[cache]\nsize = "512K"')
    torn: list[bytes] = []

    def write() -> None:
        file = opened(tree, b"a")
        for value in range(1, 60):
            for place in range(0, MIB, 128 * KIB):
                file.write_from(memoryview(bytes([value]) * 4096), place)

    def look() -> None:
        file = opened(tree, b"a")
        for _ in range(20):
            for place in range(0, MIB, 32 * KIB):
                found = read(file, place, 4096)
                if place % (128 * KIB) == 0 and found and len(found) != 4096:
                    torn.append(found)

    threads = [Thread(target=write), Thread(target=look), Thread(target=look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not torn
    file = opened(tree, b"a")
    for place in range(0, MIB, 128 * KIB):
        assert read(file, place, 4096) == bytes([59]) * 4096


def test_jobs_have_their_own_settings(folder: Path) -> None:
    made(folder, "a", MIB)
    tree = caching(folder, '[jobs.reader]\nread_ahead = "512K"\n[jobs.plain]\ncache = false')
    for job, kept in (("plain", 0), ("unknown", 0), ("reader", 512 * KIB)):
        tree.set_job(job)
        read(opened(tree, b"a"), 0, 4096)
        assert tree.cache.bytes == kept, job


def test_without_a_wish_there_is_no_cache(folder: Path) -> None:
    tree = directory(folder)
    assert with_read_cache(tree, JobSettings()) is tree
    assert with_read_cache(tree, settings(folder, "[jobs.a]\ncache = true")) is not tree
    assert with_read_cache(tree, settings(folder, '[jobs.a]\ncache = true\n[cache]\nsize = "0"')) is tree


def test_blocks_are_whole(folder: Path) -> None:
    content = made(folder, "a", 3 * BLOCK + 17)
    tree = caching(folder, "[default]\nread_ahead = 1")
    file = opened(tree, b"a")
    assert read(file, 0, 10) == content[:10]
    assert tree.cache.bytes == BLOCK
    assert b"".join(read(file, place, 1000) for place in range(10, len(content), 1000)) == content[10:]


def test_settings_reach_the_discipline(folder: Path) -> None:
    wanted = settings(folder, '[default]\nrate = "1000ops"\n[jobs.noisy]\nrate = "1ops"\npool = "p"')
    queue = build_discipline("job-fair,rate-pool:p@t=5M", workers=4, seed=1)
    wanted.limit(queue.limits)
    assert queue.limits.every_job == (Rate(1000, operations=True),)
    for _ in range(3):
        queue.add(Waiting(METADATA, "noisy", None, 0, 0, None), 0)
    assert queue.take(0, Running()) is not None
    assert queue.take(0, Running()) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[default]\nread_ahed = 5", "read_ahed"),
        ('[default]\nread_ahead = "fast"', "default.read_ahead"),
        ('[jobs.x]\nread_ahead = "2G"', "jobs.x.read_ahead"),
        ('[jobs.x]\nrate = "fast"', "jobs.x.rate"),
        ("[cache]\nsize = -5", "cache.size"),
        ("[jobs]\nx = 5", "jobs"),
        ("[default", "no TOML"),
    ],
)
def test_wrong_settings_are_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        settings(folder, text)
    assert said in str(error.value)
    assert error.value.remedy or "2G" in text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_job_settings(tmp_path / "none.toml")
