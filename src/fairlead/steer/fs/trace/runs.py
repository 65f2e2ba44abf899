"""First pass over recorded requests: neighbours of one file, handle, operation and size become runs of constant stride.

The law is that of `fairlead.core.compression` (one second, gaps below 10 ms), greedy, in plain Python; runs are merged
once more when they are taken in. Nothing is lost but single times.
"""

from __future__ import annotations

from fairlead.steer.fs.fuse.abi import Op, Valid
from fairlead.steer.fs.trace.path_names import File

GAP_NS = 10_000_000
BOUNDARY_NS = 1_000_000_000
_SAME = (
    "LOOKUP READLINK SYMLINK MKNOD MKDIR UNLINK RMDIR RENAME LINK OPEN READ WRITE STATFS FLUSH FSYNC SETXATTR GETXATTR "
    "LISTXATTR REMOVEXATTR OPENDIR READDIR ACCESS CREATE SYNCFS"
)
WORDS: dict[int, str] = {int(Op[name]): name.lower() for name in _SAME.split()} | {
    Op.GETATTR: "stat",
    Op.STATX: "stat",
    Op.RENAME2: "rename",
    Op.RELEASE: "close",
    Op.READDIRPLUS: "readdir",
    Op.RELEASEDIR: "closedir",
    Op.FSYNCDIR: "fsync",
    Op.GETLK: "lock",
    Op.SETLK: "lock",
    Op.SETLKW: "lock",
    Op.TMPFILE: "create",
    Op.FALLOCATE: "allocate",
    Op.LSEEK: "seek",
    Op.COPY_FILE_RANGE: "copy",
}
"""Words of the `ops` and `metadata` tables; other requests are not recorded."""
SIZED = frozenset({int(Op.READ), int(Op.WRITE), int(Op.COPY_FILE_RANGE)})
"""Operations whose offset and size say which bytes they moved."""
_SETATTR, _FSYNC = int(Op.SETATTR), int(Op.FSYNC)
_KINDS = ((Valid.SIZE, "truncate"), (Valid.MODE, "chmod"), (Valid.UID | Valid.GID, "chown"))


class Run:
    """A run of `count` requests. Offset -1: no offset, size, stride. Nothing may join after `limit`."""

    __slots__ = (
        "busy",
        "count",
        "end",
        "file",
        "handle",
        "job",
        "last",
        "limit",
        "offset",
        "size",
        "start",
        "stride",
        "word",
    )

    def __init__(
        self, start: int, end: int, job: int, word: str, file: File | None, handle: int, offset: int, size: int
    ) -> None:
        self.start = start
        self.end = end
        self.busy = end - start
        self.job = job
        self.word = word
        self.file = file
        self.handle = handle
        self.offset = offset
        self.size = size
        self.stride = 0
        self.count = 1
        self.last = offset
        limit = (start // BOUNDARY_NS + 1) * BOUNDARY_NS
        # A request that does not lie inside its second stays alone.
        self.limit = limit if start <= end <= limit else -1


def name_run_operation(op: int, size: int) -> str | None:
    """The word of a request. `size` is the `valid` field of a SETATTR and the flags of an FSYNC."""
    if op == _SETATTR:
        return next((word for bits, word in _KINDS if size & bits), "utimens")
    if op == _FSYNC and size & 1:
        return "fdatasync"
    return WORDS.get(op)


class Runs:
    """Open runs by stream. `closed` collects what is finished."""

    def __init__(self) -> None:
        self.closed: list[Run] = []
        self._open: dict[int, Run] = {}

    def add(
        self, op: int, job: int, file: File | None, key: int, handle: int, offset: int, size: int, start: int, end: int
    ) -> None:
        """One request. `key` names its stream: its handle, or something else for requests without one."""
        if op in SIZED:
            word = WORDS[op]
        else:
            found = name_run_operation(op, size)
            if found is None:
                return
            word = found
            offset = size = -1
        run = self._open.get(key)
        if run is not None:
            if (
                run.word is word
                and run.size == size
                and run.job == job
                and run.file == file
                and end <= run.limit
                and 0 <= start - run.end < GAP_NS
            ):
                stride = offset - run.last
                if run.count == 1 or run.stride == stride:
                    run.end = end
                    run.busy += end - start
                    run.stride = stride
                    run.count += 1
                    run.last = offset
                    return
            self.closed.append(run)
        self._open[key] = Run(start, end, job, word, file, handle, offset, size)

    def settle(self, before_ns: int) -> None:
        """Closes every run that nothing after `before_ns` can join."""
        over = [key for key, run in self._open.items() if run.end <= before_ns - GAP_NS]
        for key in over:
            self.closed.append(self._open.pop(key))

    def finish(self) -> None:
        """Closes every run."""
        self.closed += self._open.values()
        self._open.clear()
