"""What jobs of a test run, and what they say themselves of what they moved: IOR and mdtest where a tester has them in
the PATH (their sources are not part of this project), else fio; and a writer that keeps count where it may be killed.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
_TALLY = Path(__file__).with_name("tally_writer.py")
_MPI = (
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1"
    " OMPI_MCA_plm=isolated OMPI_MCA_ras=^slurm OMPI_MCA_btl_vader_single_copy_mechanism=none TMPDIR=/tmp HOME=/tmp"
    " PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"
)


@dataclass(frozen=True)
class Moved:
    """Bytes a program says it read and wrote."""

    read_bytes: int
    write_bytes: int

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.read_bytes + other.read_bytes, self.write_bytes + other.write_bytes)


def lacking_ior() -> str | None:
    """Why IOR and mdtest cannot be run here; None when they can."""
    absent = [name for name in ("ior", "mdtest", "mpirun") if shutil.which(name) is None]
    if not absent:
        return None
    return f"no {', '.join(absent)} in the PATH: build IOR (hpc/ior) with MPI (apt-get install libopenmpi-dev)"


def transfer_name() -> str:
    """The program `transfer` runs here."""
    return "IOR" if lacking_ior() is None else "fio"


def transfer(file: Path, said: Path, *, tasks: int = 2, mib: int = 4, options: str = "") -> str:
    """A shell line: `tasks` processes write `mib` MiB each into one file and read it again; `said` gets the figures.

    Written and read in turn by IOR, or by fio, which then gives each process a file of its own."""
    if lacking_ior() is None:
        ior = (
            f"ior -a POSIX -w -r -e -k -t 1m -b {mib}m {options} -o {shlex.quote(str(file))}"
            f" -O summaryFile={said} -O summaryFormat=JSON"
        )
        return f"{_MPI}; mpirun -np {tasks} {ior} >{said}.out 2>&1"
    fio = f"fio --name=t --filename_format={file}.$jobnum --bs=1M --size={mib}M --numjobs={tasks} --end_fsync=1"
    return " && ".join(
        f"{fio} --rw={way} --group_reporting --output-format=json --output={said}.{way} >/dev/null"
        for way in ("write", "read")
    )


def transferred(said: Path) -> Moved:
    """What `transfer` says it moved."""
    if lacking_ior() is None:
        told = json.loads(said.read_text())
        by = {one["operation"]: round(one["xsizeMiB"] * MIB) * one["repetitions"] for one in told["summary"]}
        return Moved(by.get("read", 0), by.get("write", 0))
    ways = [json.loads(Path(f"{said}.{way}").read_text())["jobs"] for way in ("write", "read")]
    runs = [run for way in ways for run in way]
    return Moved(sum(run["read"]["io_bytes"] for run in runs), sum(run["write"]["io_bytes"] for run in runs))


def metadata(folder: Path, said: Path, *, tasks: int = 2, files: int = 20) -> str:
    """A shell line of mdtest: each process creates, stats, opens and removes `files` files."""
    return f"{_MPI}; mpirun -np {tasks} mdtest -F -n {files} -d {folder} >{said} 2>&1"


def metadata_done(said: Path) -> int:
    """How many files mdtest says it created, asked for, opened and removed."""
    found = re.search(r"\d+ tasks, (\d+) files", said.read_text())
    assert found, said.read_text()
    return int(found.group(1))


def tally(file: Path, said: Path, *, mib: int = 64, pause_s: float = 0.05) -> str:
    """A shell line: writes MiB after MiB, at most `mib`, until it is killed; `said` holds how many were written."""
    return f"exec {sys.executable} -S {_TALLY} {file} {said} {mib} {pause_s}"


def tallied(said: Path) -> int:
    """Bytes of writes that had returned when the writer of `tally` ended."""
    return int(struct.unpack("<Q", said.read_bytes())[0]) * MIB if said.exists() else 0
