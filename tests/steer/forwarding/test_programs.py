"""Programs people run do on a mount what they do anywhere: databases, version control, archives, compilers, HDF5."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from mounted_trees import KINDS, Mounted, mounted_tree

pytestmark = pytest.mark.fuse

DEADLINE_S = 900.0


@pytest.fixture(scope="module", params=KINDS)
def tree(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    with mounted_tree(request.param) as found:
        yield found


@pytest.fixture
def mounted(tree: Mounted, request: pytest.FixtureRequest) -> Path:
    """A folder of this test on the mount."""
    folder = tree.folder / hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    folder.mkdir()
    return folder


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Runs a program to its end; what it said, if it failed. A mount in this process may hold our own umask at 0."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        umask=0o022,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips where a program is absent."""
    absent = [program for program in programs if which(program) is None]
    return pytest.mark.skipif(bool(absent), reason=f"no {', '.join(absent)}: apt-get install it")


def some_files(folder: Path, count: int = 40) -> None:
    """A small source tree: folders, files of many sizes, a link, a program."""
    for number in range(count):
        path = folder / f"part{number % 5}" / f"level{number % 3}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(hashlib.sha256(b"%d" % number).digest() * (number * 37))
        path.chmod(0o644)
    (folder / "link").symlink_to("part0/level0/file0.txt")
    (folder / "run").write_text("#!/bin/sh\necho ran\n")
    (folder / "run").chmod(0o755)


def digest(folder: Path) -> dict[str, str]:
    """What is in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() + oct(path.stat().st_mode)
    return found


@needs("fio")
@pytest.mark.parametrize(
    "options",
    [
        ("--rw=randwrite", "--bs=4k", "--ioengine=psync"),
        ("--rw=write", "--bs=1m", "--ioengine=psync", "--direct=1"),
        ("--rw=randrw", "--bsrange=512-64k", "--ioengine=psync", "--fsync=64"),
        ("--rw=randwrite", "--bs=4k", "--ioengine=mmap"),
        ("--rw=randwrite", "--bs=16k", "--ioengine=libaio", "--iodepth=8", "--direct=1"),
    ],
    ids=lambda options: "-".join(option.partition("=")[2] for option in options),
)
def test_fio_reads_back_what_it_wrote(mounted: Path, options: tuple[str, ...]) -> None:
    engine = next(option.partition("=")[2] for option in options if option.startswith("--ioengine"))
    if engine not in run("fio", "--enghelp", cwd=mounted).split():
        pytest.skip(f"this fio has no {engine}")
    run(
        "fio",
        "--name=verify",
        "--size=6m",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--numjobs=2",
        "--randseed=7",
        "--fallocate=none",
        "--thread",
        *options,
        cwd=mounted,
    )


@needs("git")
def test_git_clones_packs_and_checks(mounted: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    some_files(source)
    who = {
        f"GIT_{role}_{what}": "someone@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def git(*arguments: str | Path, cwd: Path) -> str:
        return run("git", "-c", "protocol.file.allow=always", *arguments, cwd=cwd, **who)

    git("init", "-q", cwd=source)
    git("add", ".", cwd=source)
    git("commit", "-q", "-m", "all", cwd=source)
    git("clone", "-q", f"file://{source}", "copy", cwd=mounted)
    copy = mounted / "copy"
    assert {name: kind for name, kind in digest(copy).items() if not name.startswith(".git")} == {
        name: kind for name, kind in digest(source).items() if not name.startswith(".git")
    }
    (copy / "new").write_text("new\n")
    git("add", "new", cwd=copy)
    git("commit", "-q", "-m", "new", cwd=copy)
    git("gc", "-q", "--prune=now", cwd=copy)
    git("fsck", "--full", "--strict", cwd=copy)
    assert git("status", "--porcelain", cwd=copy) == ""
    git("checkout", "-q", "-b", "other", "HEAD~1", cwd=copy)
    assert not (copy / "new").exists()


WRITER = """
import sqlite3, sys
path, number = sys.argv[1], int(sys.argv[2])
base = sqlite3.connect(path, timeout=60, isolation_level=None)
for turn in range(25):
    base.execute("BEGIN IMMEDIATE")
    count, = base.execute("SELECT count(*) FROM line").fetchone()
    base.execute("INSERT INTO line VALUES (?, ?, ?)", (number, turn, count))
    base.execute("UPDATE total SET value = value + 1")
    base.execute("COMMIT")
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_sqlite_with_several_processes(mounted: Path, journal: str) -> None:
    import sqlite3

    path = mounted / "base.db"
    base = sqlite3.connect(path, isolation_level=None)
    try:
        assert base.execute(f"PRAGMA journal_mode={journal}").fetchone() == (journal,)
        base.execute("CREATE TABLE line (writer INT, turn INT, seen INT)")
        base.execute("CREATE TABLE total (value INT)")
        base.execute("INSERT INTO total VALUES (0)")
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)]) for number in range(3)]
        assert [writer.wait(DEADLINE_S) for writer in writers] == [0, 0, 0]
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert base.execute("SELECT value FROM total").fetchone() == (75,)
        seen = [number for (number,) in base.execute("SELECT seen FROM line ORDER BY seen")]
        assert seen == list(range(75))
    finally:
        base.close()


@needs("tar")
def test_tar_and_back(mounted: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    some_files(source)
    os.link(source / "run", source / "run-again")
    run("tar", "-C", source, "-cf", tmp_path / "one.tar", ".", cwd=tmp_path)
    (mounted / "out").mkdir()
    run("tar", "-C", mounted / "out", "-xpf", tmp_path / "one.tar", cwd=tmp_path)
    assert digest(mounted / "out") == digest(source)
    assert (mounted / "out" / "run").stat().st_nlink == 2
    assert run(mounted / "out" / "run", cwd=mounted) == "ran\n"
    run("tar", "-C", mounted / "out", "-cf", mounted / "two.tar", ".", cwd=tmp_path)
    run("tar", "-C", source, "-df", mounted / "two.tar", cwd=tmp_path)


@needs("cp", "rm", "find")
def test_copy_find_and_remove(mounted: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    some_files(source)
    run("cp", "-a", source, mounted / "copy", cwd=tmp_path)
    assert digest(mounted / "copy") == digest(source)
    found = run("find", ".", "-type", "f", cwd=mounted / "copy").splitlines()
    assert len(found) == sum(path.is_file() and not path.is_symlink() for path in source.rglob("*"))
    run("rm", "-r", "copy", cwd=mounted)
    assert list(mounted.iterdir()) == []


def test_pip_installs_a_package(mounted: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "small_package-1.0-py3-none-any.whl"
    info = "small_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        for number in range(30):
            packed.writestr(f"small_package/part{number}.py", f"VALUE = {number}\n")
        packed.writestr("small_package/__init__.py", "from small_package.part7 import VALUE\n")
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small-package\nVersion: 1.0\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/RECORD", "")
    have_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if have_pip.returncode != 0:
        pytest.skip("no pip in this environment: python -m ensurepip")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
        "-q",
        "--target",
        mounted / "site",
        wheel,
        cwd=tmp_path,
    )
    said = run(
        sys.executable,
        "-c",
        "import small_package; print(small_package.VALUE)",
        cwd=mounted,
        PYTHONPATH=str(mounted / "site"),
    )
    assert said == "7\n"
    assert len(list((mounted / "site" / "small_package").glob("*.py"))) == 31


MAKEFILE = """
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard *.c)))
program: $(OBJECTS)
\tgcc -o $@ $^
%.o: %.c
\tgcc -c -O1 -o $@ $<
"""


@needs("gcc", "make")
def test_a_c_program_is_built(mounted: Path) -> None:
    for number in range(6):
        (mounted / f"part{number}.c").write_text(f"int part{number}(void) {{ return {number}; }}\n")
    calls = " + ".join(f"part{number}()" for number in range(6))
    declared = "".join(f"int part{number}(void);\n" for number in range(6))
    (mounted / "main.c").write_text(f'#include <stdio.h>\n{declared}int main(void) {{ printf("%d\\n", {calls}); }}\n')
    (mounted / "Makefile").write_text(MAKEFILE)
    run("make", "-s", "-j2", cwd=mounted)
    assert run(mounted / "program", cwd=mounted) == "15\n"
    assert "up to date" in run("make", cwd=mounted)


HDF5 = """
import sys
import h5py, numpy
with h5py.File(sys.argv[1], "w") as file:
    whole = file.create_dataset("whole", data=numpy.arange(50_000).reshape(500, 100))
    pieces = file.create_dataset("pieces", shape=(400, 300), chunks=(64, 64), dtype="f8", compression="gzip")
    for row in range(0, 400, 50):
        pieces[row : row + 50] = row
    file.attrs["unit"] = "m"
with h5py.File(sys.argv[1], "r+") as file:
    file["pieces"][10, 10] = -1
    grown = file.create_dataset("grown", shape=(10,), maxshape=(None,), chunks=(16,), dtype="i4")
    grown.resize((1000,))
    grown[990:] = 5
with h5py.File(sys.argv[1]) as file:
    assert (file["whole"][...] == numpy.arange(50_000).reshape(500, 100)).all()
    assert file["pieces"][10, 10] == -1 and file["pieces"][399, 299] == 350
    assert file["grown"][...].sum() == 50 and file.attrs["unit"] == "m"
"""
NETCDF = """
import sys
import netCDF4, numpy
with netCDF4.Dataset(sys.argv[1], "w", format=sys.argv[2]) as file:
    file.createDimension("time", None)
    file.createDimension("x", 200)
    heat = file.createVariable("heat", "f8", ("time", "x"))
    for step in range(30):
        heat[step] = numpy.full(200, step)
with netCDF4.Dataset(sys.argv[1], "a") as file:
    file["heat"][30] = -numpy.arange(200)
with netCDF4.Dataset(sys.argv[1]) as file:
    assert file["heat"].shape == (31, 200)
    assert (file["heat"][:30] == numpy.arange(30)[:, None]).all() and (file["heat"][30] == -numpy.arange(200)).all()
"""


def needs_module(name: str) -> None:
    """Skips where a module is absent; looked for in another process, as some warn when they are imported."""
    command = [sys.executable, "-W", "ignore", "-c", f"import {name}"]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no {name}: pip install {name}")


def test_hdf5_is_written_grown_and_read(mounted: Path) -> None:
    needs_module("h5py")
    run(sys.executable, "-W", "ignore", "-c", HDF5, mounted / "data.h5", cwd=mounted)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_netcdf_is_written_appended_and_read(mounted: Path, kind: str) -> None:
    needs_module("netCDF4")
    run(sys.executable, "-W", "ignore", "-c", NETCDF, mounted / "data.nc", kind, cwd=mounted)


def test_many_small_files_are_all_there(tree: Mounted, mounted: Path) -> None:
    for number in range(1500):
        (mounted / f"{number:04}").write_bytes(b"%d" % number)
    assert sorted(path.name for path in mounted.iterdir()) == [f"{number:04}" for number in range(1500)]
    assert all((mounted / f"{number:04}").read_bytes() == b"%d" % number for number in range(0, 1500, 50))
    if tree.export is not None:
        below = tree.export / mounted.name
        assert all((below / f"{number:04}").read_bytes() == b"%d" % number for number in range(0, 1500, 50))
    shutil.rmtree(mounted)
    assert not mounted.exists()
