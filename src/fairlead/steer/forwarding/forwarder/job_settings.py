"""What a forwarder does differently for some jobs: read-ahead, cache, rates. A TOML file, read strictly.

`[default]` holds for every job, `[jobs.NAME]` overrides it key by key; docs/explanation/request-scheduling.md.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.core.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.decide.policies.requests import Limits, Rate

AHEAD = 256 << 10
"""Bytes read ahead where a cache is wanted and nothing else is said."""
MOST_AHEAD = 1 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class JobPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one job, or of all (`[default]`). A key that is left out is taken from `[default]`."""

    read_ahead: str | int | None = None
    """Bytes read at once when a job reads a file in order, as `256K`; 0 reads no more than was asked for."""
    cache: bool | None = None
    """Whether what is read in order is kept in the forwarder's cache; true where `read_ahead` is given, else false."""
    rate: str | None = None
    """Bytes or operations a second, as `100M` or `200ops`."""
    pool: str | None = None


class Cache(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The read cache all jobs share."""

    size: str | int = "64M"


class SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    default: JobPart = JobPart()
    jobs: dict[str, JobPart] = {}
    cache: Cache = Cache()


class ReadSettings(msgspec.Struct, frozen=True):
    """How a job's files are read."""

    cache: bool = False
    read_ahead: int = AHEAD


class JobSettings:
    """The settings of a forwarder, checked."""

    def __init__(self, file: SettingsFile | None = None, where: str = "job settings") -> None:
        self._file = file or SettingsFile()
        self._where = where
        self.cache_bytes = self._bytes(self._file.cache.size, "cache.size")
        parts = {"default": self._file.default} | {f"jobs.{name}": part for name, part in self._file.jobs.items()}
        for name, part in parts.items():
            self._reading(part, self._file.default, name)
            self._rated(part, name)

    @property
    def caches(self) -> bool:
        """Whether any job may have something in the cache."""
        parts = (self._file.default, *self._file.jobs.values())
        return self.cache_bytes > 0 and any(self._reading(part, self._file.default, "").cache for part in parts)

    def get_read_settings(self, job: str) -> ReadSettings:
        """How the files of that job are read."""
        return self._reading(self._file.jobs.get(job, self._file.default), self._file.default, job)

    def limit(self, limits: Limits) -> None:
        """Sets the rates and pools of the jobs. A rate of `[default]` is one for each job."""
        every = self._rated(self._file.default, "default")
        if every:
            limits.every_job += every
            limits.rated = True
            limits.version += 1
        for job, part in self._file.jobs.items():
            rates = self._rated(part, f"jobs.{job}")
            if rates:
                limits.rate_job(job, *rates)
            if part.pool is not None:
                limits.assign(job, part.pool)

    def _rated(self, part: JobPart, name: str) -> tuple[Rate, ...]:
        from fairlead.decide.policies.requests import parse_discipline_rate

        return () if part.rate is None else (parse_discipline_rate(part.rate, f"{self._where}: {name}.rate"),)

    def _reading(self, part: JobPart, default: JobPart, name: str) -> ReadSettings:
        ahead = part.read_ahead if part.read_ahead is not None else default.read_ahead
        cache = part.cache if part.cache is not None else default.cache
        size = self._bytes(ahead, f"{name}.read_ahead") if ahead is not None else AHEAD
        if size > MOST_AHEAD:
            raise ConfigError(f"{ahead} is more than 1G", where=f"{self._where}: {name}.read_ahead")
        return ReadSettings(ahead is not None if cache is None else cache, size)

    def _bytes(self, value: str | int, key: str) -> int:
        text = str(value).strip().removesuffix("iB").removesuffix("B")
        number, unit = (text[:-1], text[-1]) if text and text[-1] in _UNITS else (text, "")
        if not number.isdecimal():
            raise ConfigError(
                f"{value!r} is no size", where=f"{self._where}: {key}", remedy="bytes, or a whole number with K, M, G"
            )
        return int(number) * _UNITS[unit]


def read_job_settings(path: str | Path) -> JobSettings:
    """Reads and checks the file; ConfigError names the key that is wrong."""
    where = str(path)
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return JobSettings(msgspec.convert(raw, SettingsFile), where)
    except OSError as fault:
        raise ConfigError(f"cannot be read: {fault.strerror}", where=where, remedy="check the path") from fault
    except UnicodeDecodeError as fault:
        raise ConfigError("is no UTF-8 text", where=where, remedy="save it as UTF-8") from fault
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"is no TOML: {fault}", where=where, remedy="mend the line it names") from fault
    except msgspec.ValidationError as fault:
        keys = ", ".join(JobPart.__struct_fields__)
        remedy = f"[default] and [jobs.NAME] take {keys}; [cache] takes size"
        raise ConfigError(str(fault), where=where, remedy=remedy) from fault
