"""Processes killed at any moment: nothing acknowledged is lost, and a check finds only what it can mend."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import targets_worker
from fairlead.steer.fs.trees.base import ROOT
from fairlead.steer.targets.check import check_store
from fairlead.steer.targets.config import read_config
from fairlead.steer.targets.objects import TargetSet
from fairlead.steer.targets.tree import open_tree, open_tree_store
from targets_building import opened, read_file, write_targets
from targets_worker import apply
from waiting import PATIENCE_S

Step = tuple[str, bytes, bytes, int, int]


def _killed(file: Path, seed: int, lines: int) -> tuple[list[Step], Step | None]:
    """Runs the worker until it has written that many lines; what was done, and what was under way."""
    worker = subprocess.Popen([sys.executable, targets_worker.__file__, str(file), str(seed)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    try:
        read = [line for _ in range(lines) if (line := worker.stdout.readline())]
        # A moment more, so that the kill falls anywhere within an operation.
        time.sleep(random.Random(seed).random() / 200)
    finally:
        worker.send_signal(signal.SIGKILL)
        read += worker.stdout.read().splitlines(keepends=True)
        worker.wait(PATIENCE_S)
        worker.stdout.close()
    done: list[Step] = []
    begun: Step | None = None
    for line in read:
        if line.startswith(b"b "):
            _, kind, name, other, at, number = line.split()
            begun = (kind.decode(), name, other, int(at), int(number))
        elif begun is not None:
            done.append(begun)
            begun = None
    assert done, "the worker did nothing"
    return done, begun


def _rounds(folder: Path, rounds: int, layout: str) -> None:
    file = write_targets(folder, layout)
    model: dict[bytes, bytes] = {}
    for seed in range(rounds):
        done, begun = _killed(file, seed, 40 + 13 * seed % 100)
        for step in done:
            apply(model, *step)
        unsure = set() if begun is None else {begun[1], begun[2] if begun[0] == "rename" else begun[1]}
        found: dict[bytes, bytes] = {}
        with opened(file) as tree:
            for entry in tree.list_entries(ROOT):
                if entry.name not in (b".", b".."):
                    found[entry.name] = read_file(tree, entry.node)
        after = dict(model)
        if begun is not None:
            apply(after, *begun)
        for name in model.keys() | found.keys() | after.keys():
            if name not in unsure:
                assert found.get(name) == model.get(name), (seed, name, begun)
            elif begun is not None and begun[0] in ("create", "rename", "unlink"):
                assert found.get(name) in (model.get(name), after.get(name)), (seed, name, begun)
            else:
                assert name in found
        # All of a rename or nothing.
        if begun is not None and begun[0] == "rename":
            assert found in (model, after)
        model = found
        store = open_tree_store(read_config(file))
        try:
            first = check_store(store, TargetSet(read_config(file)), repair=True)
            assert not [problem for problem in first.problems if problem.fault], first.problems
            second = check_store(store, TargetSet(read_config(file)))
            assert {problem.kind for problem in second.problems} <= {"unlinked"}
        finally:
            store.close()
    _nothing_left(file)


def _nothing_left(file: Path) -> None:
    """Orphans are swept, and every object belongs to a file."""
    tree = open_tree(str(file))
    try:
        tree.sweep(0)
        found = check_store(tree.store, tree.targets)
        assert not found.problems
    finally:
        tree.close()


def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    _rounds(tmp_path, 5, 'stripe_count = 2\nstripe_size = "4K"')


@pytest.mark.slow
def test_many_killed_processes_lose_nothing(tmp_path: Path) -> None:
    _rounds(tmp_path, 100, 'stripe_count = 3\nstripe_size = "8K"')


def test_an_unlinked_file_is_there_for_its_client_after_a_kill(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    program = (
        "import os, sys, time\n"
        "from fairlead.steer.targets.tree import open_tree\n"
        "tree = open_tree(sys.argv[1])\n"
        "node, _, file = tree.create(1, b'a', os.O_RDWR, 0o644)\n"
        "file.write_from(memoryview(b'data'), 0)\n"
        "tree.unlink(1, b'a')\n"
        "print(node, flush=True)\n"
        "time.sleep(600)\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    node = int(worker.stdout.readline())
    worker.kill()
    worker.wait(PATIENCE_S)
    worker.stdout.close()
    with opened(file) as tree:
        again = tree.reopen(node, 2)
        buffer = memoryview(bytearray(10))
        assert again.read_into(buffer, 0) == 4
        assert tree.sweep(0) == 0, "it is open"
        again.close()
        assert not check_store(tree.store, tree.targets).problems, "its last close removed it"
        assert not [path for name in ("t0", "t1", "t2") for path in (tmp_path / name).rglob("*.0")]
