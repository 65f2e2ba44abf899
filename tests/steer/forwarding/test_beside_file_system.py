"""Random calls on a mount and on a folder beside its export: the same results, the same errors, the same tree."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fairlead.steer.fs.trees import system_calls
from mounted_trees import KINDS, Mounted, mounted_tree

pytestmark = pytest.mark.fuse

NAMES = st.sampled_from(["a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "d/d", "d/d/a"])
DATA = st.binary(min_size=0, max_size=40).map(lambda piece: piece * 200)
OFFSETS = st.integers(0, 20_000)
OPEN_FLAGS = st.sampled_from(
    [
        os.O_RDONLY,
        os.O_RDWR,
        os.O_WRONLY,
        os.O_RDWR | os.O_CREAT,
        os.O_RDWR | os.O_CREAT,
        os.O_RDWR | os.O_CREAT | os.O_EXCL,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
        os.O_RDWR | os.O_CREAT | os.O_APPEND,
        os.O_RDWR | os.O_TRUNC,
        os.O_RDONLY | os.O_DIRECTORY,
        os.O_RDONLY | os.O_NOFOLLOW,
    ]
)
NUMBERS = itertools.count()


def outcome(call: Callable[..., object], *arguments: object) -> object:
    """What a call gives, or the name of its error."""
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def shown(found: os.stat_result) -> tuple[object, ...]:
    """What two files made alike have in common."""
    size = None if stat.S_ISDIR(found.st_mode) else found.st_size
    return stat.filemode(found.st_mode), found.st_nlink, found.st_uid, found.st_gid, size


def whole(found: os.stat_result) -> tuple[object, ...]:
    """What a file has in common with itself, seen through the mount."""
    return *shown(found), found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def names_in(folder: Path) -> list[str]:
    """Names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def walk(root: Path) -> dict[str, object]:
    """Every name below, with attributes and content."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            kind = path.lstat()
            content: object = None
            if stat.S_ISREG(kind.st_mode):
                content = path.read_bytes()
            elif stat.S_ISLNK(kind.st_mode):
                content = str(path.readlink())
            found[str(path.relative_to(root))] = (shown(kind), content)
    return found


class Beside(RuleBasedStateMachine):
    """Each rule is one call, done on both sides."""

    tree: ClassVar[Mounted]

    @initialize()
    def folders(self) -> None:
        name = f"run-{next(NUMBERS)}"
        self.sides = (self.tree.beside / name, self.tree.folder / name)
        self.export = None if self.tree.export is None else self.tree.export / name
        for side in self.sides:
            side.mkdir()
        self.files: list[tuple[int, int]] = []

    def teardown(self) -> None:
        for pair in self.files:
            for fd in pair:
                os.close(fd)

    def both(self, call: Callable[..., object], *names: str, rest: tuple[object, ...] = ()) -> None:
        """Does it with the names on each side and the rest as it is."""
        below, above = (outcome(call, *(side / name for name in names), *rest) for side in self.sides)
        assert above == below

    def through(self, which: int, call: Callable[..., object], *rest: object) -> None:
        """Does it with a file opened before."""
        if self.files:
            below, above = (outcome(call, fd, *rest) for fd in self.files[which % len(self.files)])
            assert above == below

    @rule(name=NAMES, flags=OPEN_FLAGS, mode=st.sampled_from([0o644, 0o600, 0o755]))
    def open(self, name: str, flags: int, mode: int) -> None:
        pair = [outcome(os.open, side / name, flags, mode) for side in self.sides]
        if all(isinstance(fd, int) for fd in pair):
            self.files.append((pair[0], pair[1]))  # type: ignore[arg-type]
            if len(self.files) > 6:
                for fd in self.files.pop(0):
                    os.close(fd)
        else:
            assert pair[0] == pair[1]

    @rule(which=st.integers(0, 5))
    def close(self, which: int) -> None:
        if self.files:
            for fd in self.files.pop(which % len(self.files)):
                os.close(fd)

    @rule(which=st.integers(0, 5), data=DATA, offset=OFFSETS)
    def write(self, which: int, data: bytes, offset: int) -> None:
        self.through(which, os.pwrite, data, offset)

    @rule(which=st.integers(0, 5), size=st.integers(0, 30_000), offset=OFFSETS)
    def read(self, which: int, size: int, offset: int) -> None:
        self.through(which, os.pread, size, offset)

    @rule(which=st.integers(0, 5), size=OFFSETS)
    def truncate_open(self, which: int, size: int) -> None:
        self.through(which, os.ftruncate, size)

    @rule(which=st.integers(0, 5), mode=st.sampled_from([0o600, 0o644, 0o755]))
    def chmod_open(self, which: int, mode: int) -> None:
        self.through(which, os.fchmod, mode)

    @rule(which=st.integers(0, 5), mode=st.sampled_from([0, 1, 3]), offset=OFFSETS, length=st.integers(1, 20_000))
    def allocate(self, which: int, mode: int, offset: int, length: int) -> None:
        self.through(which, system_calls.call_fallocate, mode, offset, length)

    @rule(which=st.integers(0, 5))
    def sync(self, which: int) -> None:
        self.through(which, os.fsync)

    @rule(which=st.integers(0, 5))
    def stat_open(self, which: int) -> None:
        self.through(which, lambda fd: shown(os.fstat(fd)))

    @rule(one=st.integers(0, 5), two=st.integers(0, 5), length=st.integers(1, 9000), offset=OFFSETS)
    def copy(self, one: int, two: int, length: int, offset: int) -> None:
        if self.files:
            source, target = self.files[one % len(self.files)], self.files[two % len(self.files)]
            if source != target:
                below, above = (
                    outcome(os.copy_file_range, source[side], target[side], length, offset, offset) for side in (0, 1)
                )
                assert above == below

    @rule(name=NAMES)
    def unlink(self, name: str) -> None:
        self.both(os.unlink, name)

    @rule(name=NAMES, mode=st.sampled_from([0o755, 0o700, 0o2755]))
    def mkdir(self, name: str, mode: int) -> None:
        self.both(os.mkdir, name, rest=(mode,))

    @rule(name=NAMES)
    def rmdir(self, name: str) -> None:
        self.both(os.rmdir, name)

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        self.both(os.rename, old, new)

    @rule(old=NAMES, new=NAMES, flags=st.sampled_from([system_calls.RENAME_NOREPLACE, system_calls.RENAME_EXCHANGE]))
    def rename_with(self, old: str, new: str, flags: int) -> None:
        def call(one: Path, two: Path) -> None:
            system_calls.call_renameat2(
                system_calls.AT_FDCWD, os.fsencode(one), system_calls.AT_FDCWD, os.fsencode(two), flags
            )

        self.both(call, old, new)

    @rule(old=NAMES, new=NAMES)
    def link(self, old: str, new: str) -> None:
        self.both(lambda one, two: os.link(one, two, follow_symlinks=False), old, new)

    @rule(to=st.sampled_from(["a", "d", "../a", "nothing", "e/a"]), name=NAMES)
    def symlink(self, to: str, name: str) -> None:
        self.both(lambda path: path.symlink_to(to), name)

    @rule(name=NAMES)
    def readlink(self, name: str) -> None:
        self.both(lambda path: str(path.readlink()), name)

    @rule(name=NAMES, size=OFFSETS)
    def truncate(self, name: str, size: int) -> None:
        self.both(os.truncate, name, rest=(size,))

    @rule(name=NAMES, mode=st.sampled_from([0o600, 0o644, 0o755, 0o1777]))
    def chmod(self, name: str, mode: int) -> None:
        self.both(os.chmod, name, rest=(mode,))

    @rule(name=NAMES, time_ns=st.integers(0, 1 << 60))
    def set_times(self, name: str, time_ns: int) -> None:
        self.both(lambda path: os.utime(path, ns=(time_ns, time_ns)), name)
        self.both(lambda path: path.stat().st_mtime_ns if path.exists() else None, name)

    @rule(name=NAMES, key=st.sampled_from(["user.k", "user.l"]), value=st.binary(max_size=20), flags=st.integers(0, 2))
    def set_attribute(self, name: str, key: str, value: bytes, flags: int) -> None:
        self.both(lambda path: os.setxattr(path, key, value, flags), name)

    @rule(name=NAMES, key=st.sampled_from(["user.k", "user.l"]))
    def get_attribute(self, name: str, key: str) -> None:
        self.both(lambda path: os.getxattr(path, key), name)

    @rule(name=NAMES)
    def stat(self, name: str) -> None:
        self.both(lambda path: shown(path.lstat()), name)

    @rule(name=NAMES)
    def listing(self, name: str) -> None:
        self.both(names_in, name)

    @rule(name=NAMES)
    def content(self, name: str) -> None:
        self.both(lambda path: path.read_bytes(), name)

    @rule(name=NAMES)
    def as_in_the_export(self, name: str) -> None:
        if self.export is not None:
            sides = (self.export, self.sides[1])
            below, above = (outcome(lambda path: whole(path.lstat()), side / name) for side in sides)
            assert above == below

    @invariant()
    def names_agree(self) -> None:
        below, above = (names_in(side) for side in self.sides)
        assert above == below

    @rule()
    def trees_agree(self) -> None:
        assert walk(self.sides[1]) == walk(self.sides[0])
        if self.export is not None:
            assert walk(self.export) == walk(self.sides[0])


@pytest.fixture(scope="module", params=KINDS)
def tree(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    with mounted_tree(request.param) as found:
        yield found


def compare(tree: Mounted, **options: Any) -> None:
    """Runs the machine on a mount."""

    class Here(Beside):
        pass

    Here.tree = tree
    run_state_machine_as_test(
        Here,
        settings=settings(
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            **options,
        ),
    )


def test_a_mount_is_like_the_file_system_beside_it(tree: Mounted) -> None:
    compare(tree, max_examples=30, stateful_step_count=30, derandomize=True, phases=(Phase.generate, Phase.shrink))


@pytest.mark.slow
def test_a_mount_is_like_the_file_system_beside_it_for_long(tree: Mounted) -> None:
    compare(tree, max_examples=400, stateful_step_count=80)
