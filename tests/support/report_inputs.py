"""Inputs for tests of `fairlead report`: logs of any job number, of one known record, and a call of the command."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from darshan_writing import Log, Module, counted
from fairlead.cli.main import main
from fairlead.see.sources.darshan.layouts import load_darshan_layouts
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "examples" / "logs"
SMALL = LOGS / "small_512b_nn_4.darshan"
STRIDED = LOGS / "n1_strided_64k_8.darshan"
_HEADER = struct.Struct("<8sqB7xQQQ128Q64I")
_JOB_NUMBER_AT = 48


@dataclass(frozen=True)
class Done:
    """How a call ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as JSON, which it has to be as a whole."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document


def report(capture: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """`fairlead report` in this process, where a warning is an error and an exception that of the test."""
    capture.readouterr()
    code = main(["report", *map(os.fspath, arguments)])  # type: ignore[call-overload]
    shown = capture.readouterr()
    return Done(code, shown.out, shown.err)


def started(*arguments: object, environment: Mapping[str, str] | None = None, **more: Any) -> Done:
    """`fairlead ARGUMENTS` in a process of its own, with its output in a pipe."""
    command = [sys.executable, "-m", "fairlead", *map(os.fspath, arguments)]  # type: ignore[call-overload]
    inherited = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "COLUMNS")}
    done = subprocess.run(
        command, env={**inherited, **(environment or {})}, capture_output=True, timeout=PATIENCE_S, check=False, **more
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode(errors="backslashreplace"))


def renumbered(content: bytes, number: int) -> bytes:
    """A log of format 3.41 as it would be had the job had another number."""
    version, magic, compression, partial, names_at, names_length, *rest = _HEADER.unpack_from(content)
    assert compression == 0
    record = bytearray(zlib.decompress(content[_HEADER.size : names_at]))
    struct.pack_into("<q", record, _JOB_NUMBER_AT, number)
    packed = zlib.compress(bytes(record))
    moved = len(packed) - (names_at - _HEADER.size)
    regions = [at + moved if at and not k % 2 else at for k, at in enumerate(rest[:128])]
    header = (version, magic, compression, partial, names_at + moved, names_length, *regions, *rest[128:])
    return _HEADER.pack(*header) + packed + content[names_at:]


def written(folder: Path, name: str = "written.darshan", **log: Any) -> Path:
    """A log of one file that all processes share: 100 writes of 1 MiB in order, 2 s of the 10 s of the job."""
    layout = load_darshan_layouts()["POSIX"][4]
    counters = {
        "opens": 4,
        "writes": 100,
        "bytes_written": 100 << 20,
        "max_byte_written": (100 << 20) - 1,
        "seq_writes": 99,
        "consec_writes": 99,
        "size_write_100k_1m": 100,
    }
    floats = {"write_time": 2.0, "write_start_timestamp": 1.0, "write_end_timestamp": 4.0, "slowest_rank_time": 1.0}
    record = counted(
        log.get("order", "<"),
        1,
        -1,
        [counters.get(n, 0) for n in layout.counters],
        [floats.get(n, 0.0) for n in layout.floats],
    )
    path = folder / name
    path.write_bytes(Log(modules={"POSIX": Module(4, [record])}, **log).pack())
    return path
