"""An open file of a `Client`, as `io` wants a raw file to be; wrap it with `io.BufferedReader` and the like."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import MAX_WRITE, Op

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from 3.12 on

    from fairlead.steer.fs.client.client import Client


class ClientFile(io.RawIOBase):
    """Unbuffered: each read or write is one request for each MiB."""

    def __init__(self, client: Client, path: str, node: int, handle: int, flags: int) -> None:
        super().__init__()
        self._client = client
        self.name = path
        self.node = node
        self._handle = handle
        self._flags = flags
        self._at = 0

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._flags & os.O_ACCMODE != os.O_WRONLY

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._flags & os.O_ACCMODE != os.O_RDONLY

    def seekable(self) -> bool:
        """True."""
        return True

    def pread_into(self, buffer: Buffer, offset: int) -> int:
        """Reads at a place; short only at the end of the file."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            count = self._client.read_into(self.node, self._handle, view[done : done + MAX_WRITE], offset + done)
            if count == 0:
                break
            done += count
        return done

    def pread(self, size: int, offset: int) -> bytes:
        """As os.pread."""
        buffer = bytearray(size)
        return bytes(buffer[: self.pread_into(buffer, offset)])

    def pwrite(self, data: Buffer, offset: int) -> int:
        """As os.pwrite: acknowledged data is in the file system behind the forwarder."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += self._client.write_from(self.node, self._handle, view[done : done + MAX_WRITE], offset + done)
        return done

    def readinto(self, buffer: Buffer) -> int:
        """Reads on."""
        count = self.pread_into(buffer, self._at)
        self._at += count
        return count

    def readall(self) -> bytes:
        """All to the end, a MiB at a time."""
        parts = []
        while part := self.read(MAX_WRITE):
            parts.append(part)
        return b"".join(parts)

    def write(self, data: Buffer) -> int:
        """Writes on; with O_APPEND at the end of the file."""
        count = self.pwrite(data, self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As lseek, without holes."""
        if whence == os.SEEK_CUR:
            offset += self._at
        elif whence == os.SEEK_END:
            offset += self._client.stat_node(self.node).st_size
        if offset < 0:
            raise ValueError(f"before the begin of the file: {offset}")
        self._at = offset
        return offset

    def tell(self) -> int:
        """Where the next read or write goes."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """As ftruncate."""
        size = self._at if size is None else size
        self._client.set_size(self.node, size)
        return size

    def sync(self, *, data_only: bool = False) -> None:
        """As fsync and fdatasync."""
        flags = abi.FSYNC_FDATASYNC if data_only else 0
        self._client.request(Op.FSYNC, self.node, abi.FSYNC_IN.pack(self._handle, flags, 0), handle=self._handle)

    def close(self) -> None:
        """Ends it. An interpreter that ends leaves that to the forwarder."""
        if not self.closed and not sys.is_finalizing():
            try:
                self._client.close_handle(self.node, self._handle, self._flags)
            finally:
                super().close()
