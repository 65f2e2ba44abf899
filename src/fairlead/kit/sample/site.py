"""`fairlead up --sample-site`: a lake of its own with a month of a made machine, filled when it is missing or too old.

Only a folder that was made here is ever used again. Not here: filling (`fill`), the records that go on coming
(`live_tail`), serving (`up`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fairlead.core.errors import ConfigError, InputError
from fairlead.kit.sample.fill import NS, FillResult, fill_sample_lake
from fairlead.kit.sample.live_tail import Tail
from fairlead.kit.sample.month import AHEAD_DAYS, DAYS, JOBS_A_DAY, SEED, find_month_origin
from fairlead.kit.sample.people import ACCOUNTS
from fairlead.run.config import Config
from fairlead.store.lake_folder import find_default_lake_folder

MARKER = "sample-site.json"
"""What tells a folder of the sample site from any other."""
LAKE = "lake"
TRUTH = "truth.json"
PEOPLE = "sample_accounts.json"
FRESH_NS = 6 * 3600 * NS
"""A lake filled so long ago is used again: what the machine did meanwhile is sent first."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The marker: what lies in the folder. `filled_ns` null: the filling was not finished."""

    schema: str = "fairlead.sample-site/1"
    simulated: bool = True
    seed: int
    days: int
    jobs_a_day: float
    origin_ns: int
    filled_ns: int | None = None


def find_sample_site_folder() -> Path:
    """`sample-site` beside the default lake."""
    return find_default_lake_folder().absolute().parent / "sample-site"


def prepare_sample_site(
    folder: Path,
    now_ns: int,
    *,
    seed: int = SEED,
    days: int = DAYS,
    jobs_a_day: float = JOBS_A_DAY,
    done: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Sample:
    """The sample site in `folder`, filled now or a short while ago. Raises InputError for a folder that holds anything
    else, LakeError, ServerError."""
    held = _held(folder)
    wanted = (seed, days, jobs_a_day)
    if held is not None and held.filled_ns is not None and (held.seed, held.days, held.jobs_a_day) == wanted:
        if 0 <= now_ns - held.filled_ns < FRESH_NS:
            say(f"the sample site in {folder} is used again")
            return held
        say("the sample site is too old: it is filled again")
    say(
        f"filling the sample site in {folder}: {days} days, about a minute on two free cores, longer the first time"
        " on a machine; then it is served"
    )
    for part in (folder / LAKE, folder / TRUTH):
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    sample = Sample(seed=seed, days=days, jobs_a_day=jobs_a_day, origin_ns=find_month_origin(now_ns, days))
    _write(folder / MARKER, sample)
    filled = fill_sample_lake(
        folder / LAKE, folder / TRUTH, sample.origin_ns, now_ns, seed=seed, days=days, jobs_a_day=jobs_a_day, done=done
    )
    people = [{"name": name, "role": role, "projects": list(projects)} for name, role, projects in ACCOUNTS]
    (folder / PEOPLE).write_bytes(msgspec.json.encode(people))
    sample = msgspec.structs.replace(sample, filled_ns=now_ns)
    _write(folder / MARKER, sample)
    say(_describe_filling(filled, days))
    return sample


def _describe_filling(filled: FillResult, days: int) -> str:
    """What a filling came to, in a line."""
    return (
        f"filled the sample site in {filled.seconds:.0f} s: {days} days, {filled.jobs:,} jobs, {filled.findings:,}"
        f" findings about them, {filled.rows:,} records; all of it is simulated"
    )


def adapt_sample_site_config(config: Config, folder: Path) -> Config:
    """`config` for the sample site: its folder, this machine only, marked as simulated. Raises ConfigError when the
    settings name another lake."""
    if config.server.lake or config.server.state:
        raise ConfigError(
            "the sample site has a lake of its own",
            where="server.lake",
            remedy="leave out --lake and server.lake; --state says where the sample site lies",
        )
    replace = msgspec.structs.replace
    collector = config.collector
    listen = collector.listen or [f"unix:{folder / 'server.sock'}", "tcp:127.0.0.1:0"]
    return replace(
        config,
        server=replace(config.server, lake=str(folder / LAKE), state=str(folder), site=""),
        collector=replace(collector, listen=listen),
        web=replace(config.web, simulated=True),
    )


@contextmanager
def keep_sample_site_alive(folder: Path, sample: Sample) -> Iterator[None]:
    """Sends what the machine goes on doing, in a process of its own, as long as the context lasts."""
    tail = Tail(
        state=str(folder),
        origin_ns=sample.origin_ns,
        seed=sample.seed,
        days=sample.days,
        jobs_a_day=sample.jobs_a_day,
        from_ns=sample.filled_ns or 0,
        parent=os.getpid(),
    )
    process = subprocess.Popen([sys.executable, "-m", "fairlead.kit.sample.live_tail"], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(tail))
        process.stdin.close()
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _held(folder: Path) -> Sample | None:
    """The marker of a folder; None for one that is empty or missing. Raises InputError for any other."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    try:
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=Sample)
    except (OSError, msgspec.DecodeError) as fault:
        raise InputError(
            "the folder holds something that is no sample site",
            where=str(folder),
            remedy="name an empty or new folder with --state",
        ) from fault


def _write(path: Path, sample: Sample) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(sample))
    draft.replace(path)


__all__ = [
    "AHEAD_DAYS",
    "DAYS",
    "Sample",
    "adapt_sample_site_config",
    "find_sample_site_folder",
    "keep_sample_site_alive",
    "prepare_sample_site",
]
