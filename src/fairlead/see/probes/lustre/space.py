"""How full each target is: kbytes* and files* of Lustre's devices, as gauges of `target`. Not here: quotas, `lfs df`.

A server tells of its own targets (`osd-*`). With `everywhere` the targets that this node is a client of are told too
(`osp` on an MDS, `osc` and `mdc` on a client): for one node a site, where no agent runs on the servers.
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from fairlead.see.probes.base import Key, ProbeResult
from fairlead.see.probes.lustre.lustre_probe import LustreProbe, Tally, find_lustre_target, is_lustre_option_on
from fairlead.see.probes.lustre.parameters import Parameter, Place
from fairlead.see.probes.lustre.stats_lines import MOST, format_stats_line

GAUGES = ("capacity_bytes", "used_bytes", "inodes", "inodes_used")
_FILES = ("kbytestotal", "kbytesfree", "filestotal", "filesfree")
_OWN = ("osd-*/*", "obdfilter/*", "mdt/*")
_OTHERS = ("osp/*", "osc/*", "mdc/*")


class SpaceProbe(LustreProbe):
    """Capacity, use and inodes of each target, once a minute."""

    name = "lustre_space"
    kind = "Lustre server"
    period_s = 60.0
    wants = tuple("{}/{}".format(device, file) for device in _OWN for file in _FILES)

    def __init__(self, *arguments: Any, everywhere: Union[bool, str] = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._everywhere = is_lustre_option_on(everywhere)

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Gauges of every target."""
        tally = Tally()
        own: Dict[Key, List[Optional[int]]] = {}
        for device in _OWN:
            _fill(place, device, own, tally, None)
        made = []
        if own:
            made.append(self.build_reading("target", ("target",), (), _bytes(own), "osd", tally, gauges=GAUGES))
        for device in _OTHERS if self._everywhere else ():
            others: Dict[Key, List[Optional[int]]] = {}
            tally = Tally()
            _fill(place, device, others, tally, device[:3])
            if others:
                rows = _bytes(others)
                made.append(self.build_reading("target", ("target",), (), rows, device[:3], tally, gauges=GAUGES))
        return ProbeResult(made) if made else None


def _fill(
    place: Place, device: str, rows: Dict[Key, List[Optional[int]]], tally: Tally, connection: Optional[str]
) -> None:
    for at, file in enumerate(_FILES):
        for one in place.find("{}/{}".format(device, file)):
            name = _name(one, connection)
            value = read_space_number(place.read(one, 4096), tally)
            if name is None or value is None:
                continue
            row = rows.setdefault((name,), [None] * len(_FILES))
            if row[at] is None:
                row[at] = value


def _name(one: Parameter, connection: Optional[str]) -> Optional[str]:
    device = one.stars[-1]
    if connection is None:
        return device
    if connection == "osp":
        return device.rsplit("-osc-", 1)[0] if "-osc-" in device else None
    return find_lustre_target(device)


def read_space_number(text: bytes, tally: Tally) -> Optional[int]:
    """The number a file holds; None when it holds none (a target that is not connected says so in words)."""
    word = text.strip()
    if word.isdigit():
        return min(MOST, int(word[:40]))
    tally.add(1, format_stats_line(word) or "an empty file")
    return None


def _bytes(rows: Dict[Key, List[Optional[int]]]) -> Dict[Key, Sequence[Any]]:
    made: Dict[Key, Sequence[Any]] = {}
    for key in sorted(rows, key=str):
        total, free, inodes, inodes_free = rows[key]
        size, used = _both(total, free)
        made[key] = [_kib(size), _kib(used), *_both(inodes, inodes_free)]
    return made


def _both(total: Optional[int], free: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    if total is None or free is None:
        return total, None
    return total, max(0, total - free)


def _kib(value: Optional[int]) -> Optional[int]:
    return None if value is None else min(MOST, value * 1024)
