"""Batches of tables a newer agent knows and this fairlead does not: kept as they came, taken in after an upgrade.

One durable file a batch, named by its identity, in the folder of the shard's log. Capped: a full one refuses, it never
forgets what was acknowledged.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from fairlead.core.batches.rows import DecodedBatch
from fairlead.core.errors import LakeError
from fairlead.see.collector.refusal import Refusal
from fairlead.store.lake_folder import sync_lake_folder

FOLDER = "aside"
_ENDING = ".batch"


class Aside:
    """The folder of one shard. Safe to use from many threads."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Makes the folder when something is kept. Raises LakeError when it is there and cannot be read."""
        self._folder = folder
        self._max_bytes = max_bytes
        self._turn = threading.Lock()
        self._held: dict[str, int] = {}
        self.tables: Counter[str] = Counter()
        """Batches kept, by table."""
        try:
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name.endswith(_ENDING):
                    self._held[path.name] = path.stat().st_size
                    self.tables[path.name.split("-", 1)[0]] += 1
        except OSError as error:
            raise LakeError(f"cannot be read: {error.strerror}", where=str(folder)) from error

    @property
    def held_bytes(self) -> int:
        """What is kept."""
        return sum(self._held.values())

    def keep(self, batch: DecodedBatch, data: bytes) -> bool:
        """Returns when the bytes of the batch are on disk: True, False when they were there. Raises Refusal 507,
        LakeError."""
        table = batch.header.table
        name = _name(table, batch.stream, batch.header.seq)
        with self._turn:
            if name in self._held:
                return False
            if self.held_bytes + len(data) > self._max_bytes:
                raise Refusal(
                    507,
                    f"no more space for rows of the unknown table {table!r}",
                    remedy="upgrade the server",
                    retry_s=600,
                )
            try:
                self._write(name, memoryview(data))
            except OSError as error:
                raise LakeError(f"cannot be written: {error.strerror}", where=str(self._folder)) from error
            self._held[name] = len(data)
            self.tables[name.split("-", 1)[0]] += 1
            return True

    def _write(self, name: str, data: memoryview) -> None:
        self._folder.mkdir(exist_ok=True)
        draft = self._folder / f".{name}.tmp"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while len(data):
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        draft.replace(self._folder / name)
        sync_lake_folder(self._folder)

    def list_files(self) -> Iterator[tuple[Path, bytes]]:
        """What is kept."""
        for name in sorted(self._held):
            path = self._folder / name
            yield path, path.read_bytes()

    def remove_file(self, path: Path) -> None:
        """Forgets a file whose batch is in the lake now."""
        with self._turn:
            path.unlink(missing_ok=True)
            self._held.pop(path.name, None)
            self.tables[path.name.split("-", 1)[0]] -= 1


def _name(table: str, stream: str, seq: int) -> str:
    plain = "".join(c if (c.isalnum() and c.isascii()) or c == "_" else "_" for c in table)[:64]
    return f"{plain}-{blake2b(f'{stream}/{seq}'.encode(), digest_size=16).hexdigest()}{_ENDING}"
