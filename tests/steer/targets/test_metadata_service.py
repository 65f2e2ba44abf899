"""The metadata service: killed and started again under work, forwarders lost with their locks, strangers refused."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.core.access.tokens import Claims, issue_token, make_token_key, read_token_key
from fairlead.core.errors import ForwardingError, RefusedError
from fairlead.steer.fs.trees.base import ROOT, Lock
from fairlead.steer.fs.wire.address import Address
from fairlead.steer.targets.check import check_store
from fairlead.steer.targets.config import read_config
from fairlead.steer.targets.service import run_metadata_service
from fairlead.steer.targets.tree import open_tree
from targets_building import disturb, opened, read_file, write_file, write_targets
from waiting import PATIENCE_S

WHOLE = Lock(0, 99, int(fcntl.F_WRLCK), 1)
DEADLINE_S = 900.0


def _start(folder: Path) -> subprocess.Popen[str]:
    """`fairlead tree serve-metadata`, listening."""
    command = [sys.executable, "-m", "fairlead", "tree", "serve-metadata", "--store", str(folder / "metadata")]
    process = subprocess.Popen([*command, "--listen", f"unix:{folder}/socket"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "serving the metadata" in line, line
    return process


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(PATIENCE_S)
    assert process.stderr is not None
    process.stderr.close()


def _shared(folder: Path, layout: str = "stripe_count = 2") -> Path:
    return write_targets(folder, layout, metadata=f'service = "unix:{folder}/socket"')


def test_a_killed_service_is_waited_for(tmp_path: Path) -> None:
    file = _shared(tmp_path)
    done: list[int] = []
    wrong: list[BaseException] = []
    process = _start(tmp_path)
    try:
        with opened(file) as tree:

            def work() -> None:
                try:
                    for number in range(400):
                        # Carried out twice, an exclusive create or an unlink would fail.
                        write_file(tree, b"a%d" % number, b"x" * number)
                        if number % 3 == 0:
                            tree.unlink(ROOT, b"a%d" % number)
                        done.append(number)
                except BaseException as error:  # noqa: BLE001 - shown by the test
                    wrong.append(error)

            worker = threading.Thread(target=work)
            worker.start()
            for goal in (50, 120, 200):
                until = time.monotonic() + DEADLINE_S
                while len(done) < goal and time.monotonic() < until and not wrong:
                    time.sleep(0.005)
                _kill(process)
                process = _start(tmp_path)
            worker.join(DEADLINE_S)
            assert not wrong, wrong
            assert len(done) == 400
            expected = {b"a%d" % number for number in range(400) if number % 3}
            assert {entry.name for entry in tree.list_entries(ROOT)} - {b".", b".."} == expected
            for number in (1, 200, 398):
                assert read_file(tree, tree.lookup(ROOT, b"a%d" % number)[0]) == b"x" * number
    finally:
        _kill(process)
    process = _start(tmp_path)
    with _ended(process), opened(file) as tree:
        assert {problem.kind for problem in check_store(tree.store, tree.targets).problems} <= {"unlinked"}


def test_appends_of_two_forwarders_do_not_mix(tmp_path: Path) -> None:
    file = _shared(tmp_path, 'stripe_count = 2\nstripe_size = "4K"')
    with _ended(_start(tmp_path)), opened(file) as one, opened(file) as two:
        node = write_file(one, b"log", b"")
        files = [tree.open(node, os.O_WRONLY | os.O_APPEND) for tree in (one, two)]

        def work(at: int) -> None:
            for _ in range(60):
                files[at].write_from(memoryview(b"%d" % at * 999 + b"\n"), 0)

        workers = [threading.Thread(target=work, args=(at,)) for at in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(DEADLINE_S)
        for each in files:
            each.close()
        lines = read_file(one, node).split(b"\n")
        assert sorted(lines) == sorted([b"", *[b"0" * 999] * 60, *[b"1" * 999] * 60])


def test_locks_of_a_killed_forwarder_are_freed(tmp_path: Path) -> None:
    file = _shared(tmp_path)
    program = (
        "import os, sys, time\n"
        "from fairlead.steer.fs.trees.base import Lock\n"
        "from fairlead.steer.targets.tree import open_tree\n"
        "tree = open_tree(sys.argv[1])\n"
        "node, _, file = tree.create(1, b'a', os.O_RDWR, 0o644)\n"
        "file.lock(1, Lock(0, 99, 1, 1))\n"
        "file.flock(1)\n"
        "print(node, flush=True)\n"
        "time.sleep(600)\n"
    )
    with _ended(_start(tmp_path)), opened(file) as tree:
        other = subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        node = int(other.stdout.readline())
        mine = tree.open(node, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            mine.lock(1, WHOLE)
        other.kill()
        other.wait(PATIENCE_S)
        other.stdout.close()
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                mine.lock(1, WHOLE)
                mine.flock(fcntl.F_WRLCK)
                break
            except BlockingIOError:
                assert time.monotonic() < until
                time.sleep(0.05)
        mine.close()


def test_locks_outlive_a_killed_service(tmp_path: Path) -> None:
    file = _shared(tmp_path)
    process = _start(tmp_path)
    try:
        with opened(file) as one, opened(file) as two:
            node = write_file(one, b"a", b"data")
            mine, other = one.open(node, os.O_RDWR), two.open(node, os.O_RDWR)
            mine.lock(1, WHOLE)
            _kill(process)
            process = _start(tmp_path)
            one.stat(ROOT)
            with pytest.raises(BlockingIOError):
                other.lock(1, WHOLE)
            until = time.monotonic() + DEADLINE_S
            while other.find_conflict(1, WHOLE) is None:
                assert time.monotonic() < until, "the lock was not told again"
                one.stat(ROOT)
                time.sleep(0.05)
            mine.close()
            other.close()
    finally:
        _kill(process)


def test_an_unlinked_file_stays_while_another_forwarder_has_it_open(tmp_path: Path) -> None:
    file = _shared(tmp_path)
    with _ended(_start(tmp_path)), opened(file) as one, opened(file) as two:
        node = write_file(one, b"a", b"data")
        held = two.open(node, os.O_RDONLY)
        one.unlink(ROOT, b"a")
        assert one.sweep(0) == 0
        buffer = memoryview(bytearray(10))
        assert held.read_into(buffer, 0) == 4
        held.close()
        assert one.sweep(0) + two.sweep(0) == 1
        assert not check_store(one.store, one.targets).problems


def test_two_forwarders_on_the_same_names(tmp_path: Path) -> None:
    file = _shared(tmp_path, 'stripe_count = 2\nstripe_size = "4K"')
    with _ended(_start(tmp_path)), opened(file) as one, opened(file) as two:
        assert not disturb([one, two] * 3, 300)
        for tree in (one, two):
            assert all(row.open_count == 0 for row in tree.report_targets())
            tree.sweep(0)
        assert not check_store(one.store, one.targets).faults


def test_a_network_address_needs_a_token(tmp_path: Path) -> None:
    store, key_file = str(tmp_path / "metadata"), tmp_path / "key"
    with pytest.raises(ForwardingError, match="key"):
        run_metadata_service(store, Address("tcp", "127.0.0.1"), None)
    make_token_key(key_file)
    key = read_token_key(key_file)
    service = run_metadata_service(store, Address("tcp", "127.0.0.1"), key)
    try:
        token = tmp_path / "token"
        metadata = f'service = "{service.address}"\ntoken_file = "token"'
        file = write_targets(tmp_path, metadata=metadata)
        expires = int(time.time()) + 3600
        for claims in (
            Claims(expires, uid=1000),
            Claims(expires, job="7", any_user=True),
            Claims(expires),
            Claims(1, any_user=True),
        ):
            token.write_text(issue_token(key, claims), encoding="ascii")
            with pytest.raises(RefusedError):
                open_tree(str(file))
        token.write_text(issue_token(key, Claims(expires, any_user=True)), encoding="ascii")
        with opened(file) as tree:
            assert read_file(tree, write_file(tree, b"a", b"data")) == b"data"
    finally:
        service.close()


def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    file = _shared(tmp_path)
    assert read_config(file).metadata.service is not None
    with pytest.raises(ForwardingError):
        open_tree(str(file))
