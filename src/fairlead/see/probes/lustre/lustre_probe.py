"""What all Lustre probes share: where they look, when they ask `lctl` instead, names of devices. Not here: counters.

What a counter means is said by the module that reads it.
"""

import os
import re
from abc import abstractmethod
from shutil import which
from typing import Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading
from fairlead.see.probes.lustre.parameters import BASES, Place, Tree, ask_lctl_parameters
from fairlead.see.probes.lustre.stats_lines import add_stats_counters

TARGET_ROW = ("read_rpcs", "write_rpcs", "read_bytes", "write_bytes", "metadata_ops")
"""Counters of a `target` row, in the order probes give them."""
TARGET_TIMES = ("read_busy_ns", "write_busy_ns", "metadata_busy_ns")
"""Sums of times of a `target` row, after TARGET_ROW."""
_CLIENT = re.compile(r"(.+)-(?:osc|mdc)-(?!MDT)[^-]+\Z")
_TARGET = re.compile(r"(.+)-(?:OST|MDT)[0-9a-fA-F]{4}\Z")


class Tally:
    """Lines that were not understood, over all texts of one look."""

    def __init__(self) -> None:
        self.unknown = 0
        self.example = ""

    def add(self, unknown: int, example: str) -> None:
        """Count what one text held."""
        if unknown:
            self.unknown += unknown
            self.example = self.example or example


T = TypeVar("T")
_HEADS = (b"elapsed_time", b"snapshot_time")


class TextCache(Generic[T]):
    """What was read of texts, for as long as they stay the same below their times."""

    def __init__(self) -> None:
        self._kept: Dict[str, Tuple[int, T]] = {}

    def get(self, name: str, text: bytes, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the text of that name."""
        head = max(text.find(word, 0, 400) for word in _HEADS)
        seen = hash(text[text.find(b"\n", head) + 1 :] if head >= 0 else text)
        kept = self._kept.get(name)
        if kept is None or kept[0] != seen:
            kept = self._kept[name] = (seen, read(text))
        return kept[1]


class LustreProbe(Probe):
    """A probe of Lustre's parameters. `wants` are the patterns it reads, the first of them decides whether it is here.

    `place` reads from there instead of the kernel's files (a `Dump`). Where the files may not be read and `lctl` is
    given (`sudo -n lctl`, in one string or in words), it is asked at every look; None is `lctl` of PATH, for the root
    `/` only, and an empty one is never.
    """

    wants: Tuple[str, ...] = ()
    kind = ""
    """The role that has what is looked for, as a message says it."""

    def __init__(
        self,
        root: str = "/",
        node: str = "",
        place: Optional[Place] = None,
        lctl: Union[str, Sequence[str], None] = None,
    ) -> None:
        super().__init__(root, node)
        self.tree = Tree(root)
        self.place = place
        if lctl is None:
            lctl = ("lctl",) if root == "/" else ()
        self.lctl = tuple(lctl.split() if isinstance(lctl, str) else lctl)

    def read(self, now_ns: int) -> ProbeResult:
        """One look. Raises AbsentError, OSError."""
        if self.place is not None:
            return self._looked(self.place, now_ns)
        self.tree.look(now_ns)
        try:
            return self._looked(self.tree, now_ns)
        except PermissionError:
            if not self.lctl or which(self.lctl[0]) is None:
                raise
            dump = ask_lctl_parameters(self.lctl, self.wants, self.timeout_s)
            try:
                return self._looked(dump, now_ns)
            finally:
                dump.file.close()

    def _looked(self, place: Place, now_ns: int) -> ProbeResult:
        found = self.collect(place, now_ns)
        if found is not None:
            return found
        folder = self.wants[0].split("/")[0]
        if place.refused is not None and _has_devices(self.tree, folder):
            raise PermissionError(13, "only root can read the counters", place.refused)
        raise AbsentError("no {} in {}: this node is no {}".format(self.wants[0], ", ".join(BASES), self.kind))

    @abstractmethod
    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:
        """What is there, or None when nothing is. Raises OSError."""

    def build_reading(
        self,
        table: str,
        keys: Tuple[str, ...],
        counters: Tuple[str, ...],
        rows: Dict[Key, Sequence[Any]],
        source: str,
        tally: Optional[Tally] = None,
        epochs: Optional[Dict[Key, Optional[int]]] = None,
        gauges: Tuple[str, ...] = (),
        spread: Optional[Tuple[str, ...]] = None,
        born_at_zero: bool = False,
    ) -> Reading:
        """A reading whose rows are of this node (`node` of a client's table, `server` of a server's) and `source`."""
        where = "node" if table == "pfs_client" else "server"
        return Reading(
            table,
            keys,
            counters,
            gauges,
            rows,
            {key: epoch for key, epoch in (epochs or {}).items() if epoch is not None} or None,
            tally.unknown if tally else 0,
            tally.example if tally else "",
            ((where, self.node or None), ("source", source)),
            spread,
            born_at_zero,
        )


def is_lustre_option_on(option: Union[bool, str]) -> bool:
    """Whether an option is on; a settings file gives words."""
    return option if isinstance(option, bool) else option.strip().lower() in ("1", "true", "yes", "on")


def _has_devices(tree: Tree, folder: str) -> bool:
    """Whether this node has devices of a kind, as far as what may be listed tells."""
    for base in tree.bases:
        try:
            if any(os.path.isdir(os.path.join(base, folder, name)) for name in os.listdir(os.path.join(base, folder))):
                return True
        except OSError:
            continue
    return False


def find_lustre_target(device: str) -> Optional[str]:
    """The target an osc or mdc device of a client reaches (`fs-OST0001`); None for a server's own connections."""
    match = _CLIENT.match(device)
    return match.group(1) if match else None


def find_lustre_fs(target: str) -> Optional[str]:
    """The file system a target is of."""
    match = _TARGET.match(target)
    return match.group(1) if match else None


def find_lustre_mount(device: str) -> str:
    """The file system an llite, lmv or lov device is a mount of."""
    name = device.rsplit("-", 1)[0]
    for middle in ("-clilmv", "-clilov"):
        if name.endswith(middle):
            return name[: -len(middle)]
    return name


def merge_lustre_row(rows: Dict[Key, Sequence[Any]], key: Key, values: List[Any]) -> None:
    """Put a row under its key; one that is there already (a file system mounted twice) is added to."""
    there = rows.get(key)
    if there is not None:
        values = [_sum(a, b) for a, b in zip(there, values)]
    rows[key] = values


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, list):
        return [add_stats_counters(pair) for pair in zip(a, b)]
    return add_stats_counters((a, b))
