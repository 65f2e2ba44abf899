"""Fixtures shared by all tests."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHORT_EXAMPLES = 40
"""Of a property test in `make test`; the long run draws as many as the test says."""

# A shell that starts the tests in the background, or nohup, has them ignore these, and every program they start: tests
# that send one would wait for ever.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Property tests: no deadlines, and what a change must pass is the same every time; the long run draws anew."""
    same = "not slow" in config.option.markexpr
    settings.register_profile("fairlead", deadline=None, derandomize=same, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("fairlead")


def _read_umask() -> str:
    return next(line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if "Umask" in line)


@pytest.fixture(autouse=True)
def _umask_is_given_back() -> Iterator[None]:
    """A tree holds the process's umask at 0 until closed: one left open would change the files of later tests."""
    before = _read_umask()
    yield
    assert _read_umask() == before, "close the tree"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Folder of small files committed with the tests."""
    return ROOT / "tests" / "fixtures"


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether the long tests run too: what goes through every case takes only some of them otherwise."""
    return "not slow" not in pytestconfig.option.markexpr


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public logs that is not part of the project; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("FAIRLEAD_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set FAIRLEAD_SHARED_DATA to a folder with darshan/, dftracer/, ...")
    return folder


def _no_fuse() -> str | None:
    """Why nothing can be mounted here; found out by mounting, because a container may have the device and no right."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"/dev/fuse does not open ({error.strerror}): modprobe fuse, or --device /dev/fuse for a container"
    with tempfile.TemporaryDirectory(prefix="fairlead-test-") as folder:
        try:
            if os.geteuid() != 0:
                return _fusermount_refuses(folder)
            libc = ctypes.CDLL(None, use_errno=True)
            options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
            if libc.mount(b"probe", folder.encode(), b"fuse", 0, options) != 0:
                why = os.strerror(ctypes.get_errno())
                return f"root may not mount here ({why}): --cap-add SYS_ADMIN for a container"
            libc.umount2(folder.encode(), 2)  # MNT_DETACH
        finally:
            os.close(device)
    return None


def _fusermount_refuses(folder: str) -> str | None:
    program = which("fusermount3")
    if program is None:
        return "no fusermount3: apt-get install fuse3"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [program, "--", folder],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        return f"fusermount3 does not mount: {done.stderr.strip()}"
    subprocess.run([program, "-u", "-z", "--", folder], capture_output=True, check=False)
    return None


@pytest.fixture(scope="session")
def fuse_for_everybody() -> None:
    """Skips what mounts as an ordinary user where only root may open /dev/fuse."""
    if os.geteuid() == 0 and Path("/dev/fuse").stat().st_mode & 0o006 != 0o006:
        pytest.skip("only root may open /dev/fuse: chmod 666 /dev/fuse")


def _draw_less(item: pytest.Item) -> None:
    """Lets a property test draw at most `SHORT_EXAMPLES`."""
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > SHORT_EXAMPLES:
        test._hypothesis_internal_use_settings = settings(own, max_examples=SHORT_EXAMPLES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need FUSE are skipped where a mount is impossible; without the slow tests property tests draw less."""
    if "not slow" in config.option.markexpr:
        for item in items:
            _draw_less(item)
    mounting = [item for item in items if item.get_closest_marker("fuse") is not None]
    reason = _no_fuse() if mounting else None
    if reason is not None:
        for item in mounting:
            item.add_marker(pytest.mark.skip(reason=reason))
