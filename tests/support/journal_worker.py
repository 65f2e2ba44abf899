"""A process that works in a mount and keeps a journal of what was acknowledged; at its end it compares both.

python journal_worker.py FOLDER SEED COUNTER: works until its standard input ends, then prints JSON: operations done and
every difference or error. COUNTER is a file outside of the mount that holds the number of operations, for who waits.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import select
import struct
import sys
import traceback
from pathlib import Path


class Journal:
    """What must be in the folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.log = folder / "log"
        self.appended = bytearray()
        self.appending = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self.block = folder / "block"
        self.blocks = bytearray(1 << 18)
        self.writing = os.open(self.block, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.pwrite(self.writing, self.blocks, 0)
        self.names: dict[str, bytes | None] = {"log": None, "block": None}
        self.folders: set[str] = set()
        self.count = 0

    def step(self) -> None:
        """One operation, or a few that belong together. Every one must succeed: names are never used twice."""
        self.count += 1
        kind = self.random.randrange(8)
        name = f"n{self.count}"
        files = [known for known, content in self.names.items() if content is not None]
        if kind <= 2:
            data = struct.pack("<I", self.count) + self.random.randbytes(self.random.randrange(1, 3000))
            assert os.write(self.appending, data) == len(data)
            self.appended += data
            os.fsync(self.appending)
        elif kind == 3:
            at = self.random.randrange(len(self.blocks) - 70_000)
            data = self.random.randbytes(self.random.randrange(1, 70_000))
            assert os.pwrite(self.writing, data, at) == len(data)
            self.blocks[at : at + len(data)] = data
            os.fsync(self.writing)
        elif kind == 4 or len(files) < 4:
            data = self.random.randbytes(100)
            descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            self.names[name] = b""
            os.write(descriptor, data)
            os.fsync(descriptor)
            os.close(descriptor)
            self.names[name] = data
        elif kind == 5:
            old = self.random.choice(files)
            (self.folder / old).rename(self.folder / name)
            self.names[name] = self.names.pop(old)
        elif kind == 6:
            old = self.random.choice(files)
            (self.folder / old).unlink()
            del self.names[old]
        elif self.random.random() < 0.5:
            old = self.random.choice(files)
            os.link(self.folder / old, self.folder / name)
            self.names[name] = self.names[old]
        else:
            (self.folder / name).mkdir()
            self.folders.add(name)
            if len(self.folders) > 3:
                old = self.folders.pop()
                (self.folder / old).rmdir()

    def differences(self) -> list[str]:
        """What is not as the journal has it."""
        wrong = []
        if self.log.read_bytes() != bytes(self.appended):
            wrong.append(f"log: {self.log.stat().st_size} bytes, {len(self.appended)} were acknowledged, or others")
        if self.block.read_bytes() != bytes(self.blocks):
            wrong.append("block: not what was written")
        found = {path.name for path in self.folder.iterdir()}
        expected = set(self.names) | self.folders
        if found != expected:
            wrong.append(f"names: {sorted(found - expected)} too many, {sorted(expected - found)} missing")
        for name, content in self.names.items():
            if content is not None and name in found and (self.folder / name).read_bytes() != content:
                wrong.append(f"{name}: other content")
        return wrong


def main() -> None:
    """See the module."""
    folder, seed, counter = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    counter.write_bytes(bytes(8))
    with counter.open("r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        problems: list[str] = []
        folder.mkdir()
        journal = Journal(folder, seed)
        while not select.select([sys.stdin], [], [], 0)[0]:
            try:
                journal.step()
            except (OSError, AssertionError) as error:
                frames = traceback.extract_tb(error.__traceback__)
                problems.append(f"operation {journal.count}: {error!r} in {frames[1].line} ({error.args})")
                break
            struct.pack_into("<Q", memory, 0, journal.count)
        problems += journal.differences()
        print(json.dumps({"operations": journal.count, "problems": problems}))


if __name__ == "__main__":
    main()
