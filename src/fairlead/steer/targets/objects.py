"""The targets of a tree while it is open: paths of objects, what is open where, what was done there, its pace.

A target directory carries a mark with the tree's id; without it (an unmounted disk) nothing is read or made there.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from random import getrandbits

from fairlead.core.clock import monotonic_ns, sleep_s
from fairlead.core.errors import ConfigError
from fairlead.decide.policies.placement.files import TargetState, find_file_placement
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees import thread_identity
from fairlead.steer.targets import config as configured
from fairlead.steer.targets.config import Striping, TargetsFile

MARK = "fairlead-target"
SERVICE_BINS = 40
"""Bin b counts requests of [2^(b-1), 2^b) ns."""
FULL_BYTES = 1 << 20
"""A target with less free space takes no new file."""
DEFAULT_RATE = 1 << 30
"""What a target without `max_perf` is taken to do, for placement only."""
_BURST_NS = 100_000_000
log = logging.getLogger("fairlead.forwarding.targets")


class Counters:
    """What was done on a target since the tree was opened."""

    __slots__ = ("errors", "read_bytes", "read_rpcs", "service_ns", "write_bytes", "write_rpcs")

    def __init__(self) -> None:
        self.read_rpcs = self.read_bytes = self.write_rpcs = self.write_bytes = self.errors = 0
        self.service_ns = [0] * SERVICE_BINS

    def add(self, size: int, wrote: bool, took_ns: int) -> None:
        """One request."""
        if wrote:
            self.write_rpcs += 1
            self.write_bytes += size
        else:
            self.read_rpcs += 1
            self.read_bytes += size
        self.service_ns[min(took_ns.bit_length(), SERVICE_BINS - 1)] += 1


class Target:
    """One target directory."""

    def __init__(self, described: configured.Target) -> None:
        self.name = described.name
        self.path = described.path
        self.pool = described.pool
        self.rate = None if described.max_perf is None else configured.parse_config_size(described.max_perf)
        self.open_count = 0
        self.missing = False
        self.counters = Counters()
        self.by_job: dict[str, Counters] | None = None
        """The same by job since `take_by_job` was called last; None until it is."""
        self._guard = threading.Lock()
        self._free_ns = 0
        self._quiet_until_ns = 0

    def get_object_path(self, ino: int, index: int) -> str:
        """Where object `index` of an inode is."""
        return f"{self.path}/objects/{ino & 0xFF:02x}/{ino:x}.{index}"

    def make_object(self, path: str) -> int:
        """Opens an object for reading and writing, making it if need be. Never where the target is not mounted."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            if not self.is_mounted():
                raise
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), mode=0o700)
            return os.open(path, flags, 0o600)

    def prepare(self, tree: str) -> None:
        """Marks a new target of the tree and makes its folder; ConfigError if it is another tree's."""
        mark = os.path.join(self.path, MARK)
        try:
            with open(mark, encoding="ascii") as file:
                found = file.read().split()
        except FileNotFoundError:
            found = []
        except OSError as error:
            raise ConfigError(str(error), where=self.path, remedy="check the target's path") from error
        if found:
            if found != [tree, self.name]:
                what = f"the target is {found[-1]!r} of tree {found[0]}, not {self.name!r} of {tree}"
                raise ConfigError(what, where=self.path, remedy="give it back its name, or an empty directory")
            return
        objects = os.path.join(self.path, "objects")
        os.makedirs(objects, mode=0o700, exist_ok=True)
        if os.listdir(objects):
            raise ConfigError("objects without a mark", where=self.path, remedy=f"restore {MARK}, or empty it")
        # Another forwarder may do the same at the same time.
        new = f"{mark}.{os.getpid()}.{getrandbits(32):x}"
        with open(new, "w", encoding="ascii") as file:
            file.write(f"{tree} {self.name}\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, mark)

    def is_mounted(self) -> bool:
        """Whether the target is mounted; logs when it goes or comes."""
        with thread_identity.forwarder_identity:
            there = os.path.exists(os.path.join(self.path, MARK))
        if there == self.missing:
            self.missing = not there
            if there:
                log.warning("target %s: back at %s", self.name, self.path)
            else:
                log.error("target %s: nothing at %s: its files answer EIO", self.name, self.path)
        return there

    def translate_error(self, ino: int, index: int, error: OSError) -> OSError:
        """What the caller gets for an error on an object: EIO for one that has gone."""
        with self._guard:
            self.counters.errors += 1
        if error.errno == errno.ENOENT:
            if self.is_mounted():
                self._say("target %s: object %x.%d has gone", ino, index)
            return build_os_error(errno.EIO)
        if error.errno == errno.EIO:
            self._say("target %s: I/O error on object %x.%d", ino, index)
        return error

    def _say(self, text: str, ino: int, index: int) -> None:
        """Logs at most once a second: a job may meet the same object thousands of times."""
        now = monotonic_ns()
        with self._guard:
            if now < self._quiet_until_ns:
                return
            self._quiet_until_ns = now + 1_000_000_000
        log.error(text, self.name, ino, index)

    def delay_ns(self, size: int) -> int:
        """Takes `size` bytes from the bucket; how long they have to wait."""
        if self.rate is None:
            return 0
        with self._guard:
            now = monotonic_ns()
            start = max(self._free_ns, now - _BURST_NS)
            self._free_ns = start + size * 1_000_000_000 // self.rate
            return max(0, start - now)

    def count_open(self, change: int) -> None:
        """Counts files that have an object open here."""
        with self._guard:
            self.open_count += change

    def count_request(self, size: int, wrote: bool, began_ns: int) -> None:
        """One request was carried out."""
        took = monotonic_ns() - began_ns
        with self._guard:
            self.counters.add(size, wrote, took)
            if self.by_job is not None:
                job = thread_identity.get_thread_job()
                counters = self.by_job.get(job)
                if counters is None:
                    counters = self.by_job[job] = Counters()
                counters.add(size, wrote, took)

    def take_by_job(self) -> dict[str, Counters]:
        """What was done for each job since the last call; nothing at the first, which begins the counting."""
        with self._guard:
            taken, self.by_job = self.by_job, {}
        return taken or {}


class TargetSet:
    """All targets. `paced_outside`: the caller parks requests by `target_of`; else they wait here for their turn."""

    def __init__(self, config: TargetsFile) -> None:
        self.by_name = {described.name: Target(described) for described in config.targets}
        self.default = configured.build_config_striping(config)
        self.pools = configured.list_config_pools(config)
        self._placement = find_file_placement(config.layout.placement)
        self._turns = config.layout.placement == "least-open"
        self._turn = 0
        self.paced_outside = False
        self._guard = threading.Lock()

    def prepare(self, tree: str, readonly: bool) -> None:
        """Marks new targets. A path that is not there is a target that is missing for now."""
        for target in self.by_name.values():
            if os.path.isdir(target.path) and not readonly:
                target.prepare(tree)
            target.is_mounted()

    def find_targets(self, names: Sequence[str]) -> list[Target]:
        """Targets by name; EIO for one the configuration has dropped."""
        try:
            return [self.by_name[name] for name in names]
        except KeyError as error:
            log.error("target %s is not in the targets file", error.args[0])  # noqa: TRY400 - no traceback
            raise build_os_error(errno.EIO) from error

    def choose_striping(self, layout: str) -> Striping:
        """The layout a text asks for; the default where it no longer makes sense."""
        try:
            return configured.parse_config_layout(layout, self.default, self.pools)
        except ValueError:
            log.warning("layout %r is ignored: it does not fit the targets file", layout)
            return self.default

    def choose(self, layout: str) -> tuple[int, list[str]]:
        """Stripe size and targets for a new file. They count as open at once, so that files that are placed at the
        same moment do not all go to the same target; `confirm_choice` ends that."""
        wanted = self.choose_striping(layout)
        all_targets = list(self.by_name.values())
        with self._guard:
            if self._turns:  # equal targets take turns
                self._turn = (self._turn + 1) % len(all_targets)
                all_targets = all_targets[self._turn :] + all_targets[: self._turn]
            states = [_state(target) for target in all_targets]
            pool = [at for at, target in enumerate(all_targets) if wanted.pool is None or target.pool == wanted.pool]
            chosen = self._placement.place(wanted.stripes or len(pool), states, pool)
            for at in chosen:
                all_targets[at].count_open(1)
        if not chosen:
            gone = not any(states[at].available for at in pool)
            raise build_os_error(errno.EIO if gone else errno.ENOSPC)
        return wanted.size, [all_targets[at].name for at in chosen]

    def confirm_choice(self, names: Sequence[str]) -> None:
        """The file that `choose` gave these targets counts for itself now, or will not be."""
        for name in names:
            self.by_name[name].count_open(-1)

    def wait(self, target: Target, size: int) -> None:
        """Waits for the target's turn where nobody does it outside."""
        if not self.paced_outside and target.rate is not None:
            delay = target.delay_ns(size)
            if delay:
                sleep_s(delay / 1e9)


def _state(target: Target) -> TargetState:
    there = target.is_mounted()
    free = None
    if there:
        with thread_identity.forwarder_identity:
            found = os.statvfs(target.path)
        free = 0 if found.f_bavail * found.f_frsize < FULL_BYTES else None
    return TargetState(float(target.rate or DEFAULT_RATE), target.open_count, there, free)
