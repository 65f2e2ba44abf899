"""What Slurm is asked for when workers are wanted there: the table `[slurm]` of a TOML file, as a strict struct.

Not here: asking Slurm (`workers`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from fairlead.core.errors import ConfigError, InputError


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[slurm]`: one job of Slurm holds `processes` workers."""

    jobs: int = 1
    """Slurm jobs asked for."""
    cores: int = 4
    """Processors of one job."""
    memory: str = "8GB"
    """Memory of one job, shared out among its processes."""
    processes: int = 1
    """Worker processes of one job. The query engine of each uses all processors of the job."""
    queue: str = ""
    """Partition. Empty: Slurm's default."""
    account: str = ""
    """Account that is charged. Empty: the user's default."""
    walltime: str = "01:00:00"
    """Longest a job may run."""
    interface: str = ""
    """Network interface of scheduler and workers (`ib0`). Empty: found by the address of the host's name."""
    scheduler_interface: str = ""
    """The scheduler's, where it has another name here than on the nodes."""
    python: str = ""
    """Python of the workers. Empty: the one that runs this, by its path."""
    prologue: list[str] = []
    """Lines of shell before a worker starts (`module load ...`)."""
    directives: list[str] = []
    """Further `#SBATCH` options (`--exclusive`)."""
    logs: str = ""
    """Folder of the jobs' output. Empty: where Slurm puts it."""
    local_directory: str = "/tmp"  # noqa: S108 (of the node the worker runs on)
    """Where workers keep temporary files."""
    tls: bool = True
    """Whether scheduler and workers talk by TLS with certificates made for this run. Without it anyone who reaches the
    scheduler's port may run programs as you."""
    shared_directory: str = "~"
    """Where certificates are put for the workers to read: a folder of yours on a file system they see."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    slurm: Slurm = Slurm()


def load_batch_settings(file: Path | None) -> Settings:
    """Settings from a file; None: all defaults. Raises InputError, ConfigError."""
    if file is None:
        return Settings()
    try:
        settings = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Settings)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(file), remedy="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(file)) from error
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=str(file), remedy="docs: howto/scale-out") from error
    slurm = settings.slurm
    for name in ("jobs", "cores", "processes"):
        if getattr(slurm, name) < 1:
            raise ConfigError(f"slurm.{name}: at least 1", where=str(file))
    if slurm.processes > slurm.cores:
        raise ConfigError("slurm.processes: more than slurm.cores", where=str(file), remedy="give each a core")
    return settings
