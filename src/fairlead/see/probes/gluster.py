"""GlusterFS: bricks through `gluster volume profile|status`, bricks and clients through dumps of io-stats.

A brick is a target: rows of `target` (with `source` gluster) and, per kind of call, of `metadata`. Names of a brick are
`HOST:/PATH`; its server is HOST. What a client's own io-stats counts becomes a row of `pfs_client`.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading
from fairlead.see.probes.commands import read_probe_command_output

TARGET_COUNTERS = (
    "read_rpcs",
    "write_rpcs",
    "read_bytes",
    "write_bytes",
    "metadata_ops",
    "read_sizes",
    "write_sizes",
    "read_busy_ns",
    "write_busy_ns",
    "metadata_busy_ns",
)
SPACE = ("capacity_bytes", "used_bytes", "inodes", "inodes_used")
DATA_CALLS = ("READ", "WRITE")
NOT_ASKED = ("FORGET", "RELEASE", "RELEASEDIR")
"""Calls the kernel makes to say it has forgotten something: nobody waits for them, they are no metadata operations."""
_PAGE = 4096
_BINS = 20
"""Bins of request sizes: up to 4 KiB, 8 KiB, ... as `brw_stats` of Lustre has them in pages."""
_UNIT = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}


class Brick(NamedTuple):
    """What the profile counts of one brick since profiling began: calls by name, reads and writes by block size in
    bytes, bytes. `duration_s` is for how long."""

    name: str
    calls: Dict[str, int]
    reads: Dict[int, int]
    writes: Dict[int, int]
    read_bytes: int
    write_bytes: int
    duration_s: int
    means: Dict[str, float]
    """Mean time of each call, in the unit of the version: `find_gluster_latency_unit`."""


class Space(NamedTuple):
    """Room of one brick."""

    brick: str
    online: bool
    capacity_bytes: int
    free_bytes: int
    inodes: Optional[int]
    inodes_free: Optional[int]


class IoStats(NamedTuple):
    """A dump of io-stats: `brick.NAME` or the name of a volume (a client's), what it counts since its start."""

    name: str
    calls: Dict[str, int]
    reads: Dict[int, int]
    writes: Dict[int, int]
    read_bytes: int
    write_bytes: int
    uptime_s: Optional[int]


def parse_gluster_profile_xml(data: bytes) -> List[Brick]:
    """Bricks in the output of `gluster volume profile VOLUME info cumulative --xml` (cumulative statistics only).

    Raises OSError when it is no such XML, or says that the command failed."""
    root = _xml(data)
    bricks = []
    for brick in root.iter("brick"):
        stats = brick.find("cumulativeStats")
        if stats is None:
            continue
        blocks = [
            tuple(int(block.findtext(n, "0")) for n in ("size", "reads", "writes")) for block in stats.iter("block")
        ]
        calls = {fop.findtext("name", ""): int(fop.findtext("hits", "0")) for fop in stats.iter("fop")}
        means = {fop.findtext("name", ""): float(fop.findtext("avgLatency") or 0) for fop in stats.iter("fop")}
        bricks.append(
            Brick(
                brick.findtext("brickName", ""),
                calls,
                {size: reads for size, reads, _ in blocks if reads},
                {size: writes for size, _, writes in blocks if writes},
                int(stats.findtext("totalRead", "0")),
                int(stats.findtext("totalWrite", "0")),
                int(stats.findtext("duration", "0")),
                means,
            )
        )
    return bricks


def parse_gluster_status_xml(data: bytes) -> List[Space]:
    """Room of bricks in the output of `gluster volume status VOLUME detail --xml`. Raises OSError as above."""
    found = []
    for node in _xml(data).iter("node"):
        if node.find("sizeTotal") is None:  # a brick that is down, or no brick (a self-heal daemon)
            continue
        found.append(
            Space(
                "{}:{}".format(node.findtext("hostname", ""), node.findtext("path", "")),
                node.findtext("status") == "1",
                int(node.findtext("sizeTotal", "0")),
                int(node.findtext("sizeFree", "0")),
                _count(node.findtext("inodesTotal")),
                _count(node.findtext("inodesFree")),
            )
        )
    return found


def _xml(data: bytes) -> Any:
    from xml.etree import ElementTree

    if b"<!ENTITY" in data:
        raise OSError("gluster's XML defines entities: not read")
    try:
        root = ElementTree.fromstring(data)  # noqa: S314  (entities are refused above)
    except ElementTree.ParseError as fault:
        raise OSError("gluster did not print XML: {}".format(fault)) from None
    if root.findtext("opRet") != "0":
        raise OSError("gluster says: {}".format(root.findtext("opErrstr") or "the command failed"))
    return root


def _count(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and text.isdigit() else None


_CALL = re.compile(r"\s*[\d.]+\s+([\d.]+) ([nu]s)\s+[\d.]+ [nu]s\s+[\d.]+ [nu]s\s+(\d+)\s+(\w+)\Z")


def parse_gluster_profile_text(text: str) -> Tuple[List[Brick], int, str]:
    """Bricks in the output of `gluster volume profile VOLUME info` (cumulative statistics only), lines not understood,
    and one of these."""
    bricks: List[Brick] = []
    sizes: List[int] = []
    cumulative = False
    unknown, example = 0, ""
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":")
        call = _CALL.match(line.rstrip())
        if name == "Brick" and colon:
            bricks.append(Brick(value.strip(), {}, {}, {}, 0, 0, 0, {}))
        elif name.endswith(" Stats") and colon:
            cumulative = name == "Cumulative Stats"
        elif not bricks or not cumulative:
            continue
        elif call:
            bricks[-1].calls[call.group(4)] = int(call.group(3))
            bricks[-1].means[call.group(4)] = float(call.group(1))
        elif name == "Block Size":
            sizes = [int(word) for word in re.findall(r"(\d+)b\+", value)]
        elif name in ("No. of Reads", "No. of Writes"):
            into = bricks[-1].reads if name.endswith("Reads") else bricks[-1].writes
            into.update({size: int(n) for size, n in zip(sizes, value.split()) if n != "0"})
        elif name in ("Duration", "Data Read", "Data Written"):
            bricks[-1] = _with_total(bricks[-1], name, int(value.split()[0]))
        elif name and not name.startswith(("%-latency", "---")):
            unknown += 1
            example = example or line.strip()[:80]
    return bricks, unknown, example


def find_gluster_latency_unit(text: str) -> Optional[int]:
    """Nanoseconds of one unit of latency, as `gluster volume profile VOLUME info` prints it (its XML has the same
    numbers and no unit: microseconds before GlusterFS 9, nanoseconds since); None when there is no call in it."""
    for line in text.splitlines():
        call = _CALL.match(line.rstrip())
        if call:
            return 1000 if call.group(2) == "us" else 1
    return None


def _with_total(brick: Brick, name: str, number: int) -> Brick:
    if name == "Duration":
        return brick._replace(duration_s=number)
    return brick._replace(read_bytes=number) if name == "Data Read" else brick._replace(write_bytes=number)


_STAT = re.compile(r'"gluster\.(?P<name>.+?)\.(?P<part>aggr|inter)\.(?P<what>.+)": ?(?P<value>-?[\d.]+),?\s*\Z')
_SIZE = re.compile(r"(read|write)_(\d+)(b|kb|mb)\Z")


def parse_gluster_iostats(text: str) -> Tuple[List[IoStats], int, str]:
    """What a dump of io-stats (JSON form) has counted since its start, lines not understood, and one of these. The
    file holds one JSON object after another, a line each value."""
    found: Dict[str, IoStats] = {}
    unknown, example = 0, ""
    for line in text.splitlines():
        line = line.strip()
        stat = _STAT.match(line)
        if stat is None:
            if line not in ("{", "}", ""):
                unknown += 1
                example = example or line[:80]
            continue
        if stat.group("part") == "aggr":
            name = stat.group("name")
            found[name] = _noted(found.get(name) or IoStats(name, {}, {}, {}, 0, 0, None), stat)
    return list(found.values()), unknown, example


def _noted(stats: IoStats, stat: "re.Match[str]") -> IoStats:
    what, value = stat.group("what"), stat.group("value")
    size = _SIZE.match(what)
    if size:
        if value != "0":
            into = stats.reads if size.group(1) == "read" else stats.writes
            into[int(size.group(2)) * _UNIT[size.group(3)]] = int(value)
    elif what.startswith("fop.") and what.endswith(".count"):
        if value != "0":
            stats.calls[what[4:-6].upper()] = int(value)
    elif what in ("bytes_read", "bytes_written", "uptime"):
        number = int(float(value))
        if what == "uptime":
            return stats._replace(uptime_s=number)
        return stats._replace(read_bytes=number) if what == "bytes_read" else stats._replace(write_bytes=number)
    return stats


def _bin_sizes(by_size: Dict[int, int]) -> List[int]:
    """Requests by power of two of 4 KiB pages, from requests by block size (of which each is the lower edge)."""
    bins = [0] * _BINS
    for size, count in by_size.items():
        bins[min(max(size // _PAGE, 1).bit_length() - 1, _BINS - 1)] += count
    return bins


def build_gluster_readings(
    bricks: Sequence[Brick], spaces: Sequence[Space], unit_ns: Optional[int] = None
) -> List[Reading]:
    """Rows of `target` and of `metadata` for bricks; a brick of which only one is known has null in the other. Times
    are known where the unit of latencies is given."""
    room = {space.brick: space for space in spaces}
    targets: Dict[Key, Sequence[Any]] = {}
    calls: Dict[Key, Sequence[Any]] = {}
    for brick in bricks:
        server = brick.name.partition(":")[0]
        asked = {op: n for op, n in brick.calls.items() if op not in DATA_CALLS and op not in NOT_ASKED}
        space = room.pop(brick.name, None)
        targets[(server, brick.name, "gluster")] = [
            brick.calls.get("READ", 0),
            brick.calls.get("WRITE", 0),
            brick.read_bytes,
            brick.write_bytes,
            sum(asked.values()),
            _bin_sizes(brick.reads),
            _bin_sizes(brick.writes),
            *(_time(brick, ops, unit_ns) for ops in (("READ",), ("WRITE",), tuple(asked))),
            *_room(space),
        ]
        for op, count in asked.items():
            calls[(server, brick.name, op.lower(), "gluster")] = [count, _time(brick, (op,), unit_ns)]
    for name, space in room.items():
        targets[(name.partition(":")[0], name, "gluster")] = [None] * len(TARGET_COUNTERS) + _room(space)
    return [
        Reading("target", ("server", "target", "source"), TARGET_COUNTERS, SPACE, targets),
        Reading("metadata", ("server", "target", "op", "source"), ("count", "busy_ns"), (), calls),
    ]


def _time(brick: Brick, ops: Sequence[str], unit_ns: Optional[int]) -> Optional[int]:
    """Time of all these calls, ns: calls times their mean."""
    if unit_ns is None:
        return None
    return sum(int(brick.calls.get(op, 0) * brick.means.get(op, 0.0) * unit_ns) for op in ops)


def _room(space: Optional[Space]) -> List[Optional[int]]:
    if space is None:
        return [None] * len(SPACE)
    known = space.inodes is not None and space.inodes_free is not None
    used = (space.inodes or 0) - (space.inodes_free or 0) if known else None
    return [space.capacity_bytes, space.capacity_bytes - space.free_bytes, space.inodes, used]


class Volumes(Probe):
    """Bricks of every volume, asked of `gluster` on one node of the pool; profiling must have been started
    (`gluster volume profile VOLUME start`)."""

    name = "gluster"
    period_s = 10.0
    timeout_s = 20.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._unit_ns: Optional[int] = None

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where there is no `gluster` or no volume, OSError when a volume is not profiled."""
        try:
            printed = read_probe_command_output(["gluster", "--mode=script", "volume", "list"], self.timeout_s)
        except OSError as fault:
            if "Connection failed" in str(fault):
                raise AbsentError("no glusterd runs on this node") from None
            raise
        listed = printed.decode("utf-8", "replace")
        volumes = [line.strip() for line in listed.splitlines() if line.strip() and "No volumes" not in line]
        if not volumes:
            raise AbsentError("no GlusterFS volume here")
        bricks: List[Brick] = []
        spaces: List[Space] = []
        for volume in volumes:
            ask = ["gluster", "--mode=script", "--xml", "volume"]
            bricks += parse_gluster_profile_xml(
                read_probe_command_output([*ask, "profile", volume, "info", "cumulative"], self.timeout_s)
            )
            if self._unit_ns is None and bricks:
                asked = ["gluster", "--mode=script", "volume", "profile", volume, "info"]
                text = read_probe_command_output(asked, self.timeout_s).decode("utf-8", "replace")
                self._unit_ns = find_gluster_latency_unit(text)
            spaces += parse_gluster_status_xml(
                read_probe_command_output([*ask, "status", volume, "detail"], self.timeout_s)
            )
        return ProbeResult(build_gluster_readings(bricks, spaces, self._unit_ns))


class Clients(Probe):
    """`pfs_client` rows of GlusterFS mounts, from dumps of io-stats in /var/run/gluster (set
    `diagnostics.stats-dump-interval`, `diagnostics.stats-dump-format json`).

    All mounts of one volume on a node write their dump to one file, each over the others'. So a volume that is mounted
    more than once is not read from there: each of its mounts is asked for a dump of its own (as root). Times are not
    known: dumps call nanoseconds microseconds, or not, by version.
    """

    name = "gluster-client"
    period_s = 10.0
    keys = ("node", "fs", "source", "mount")
    counters = ("read_ops", "write_ops", "metadata_ops", "read_bytes", "write_bytes")

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where no dump lies, OSError."""
        mounts = self._list_mounts()
        folder = next(
            (
                one
                for one in (os.path.join(self.root, p) for p in ("var/lib/glusterd/stats", "var/run/gluster"))
                if os.path.isdir(one)
            ),
            None,
        )
        names = [name for name in sorted(os.listdir(folder)) if "stats" in name or "dump" in name] if folder else []
        several = {volume: places for volume, places in (mounts or {}).items() if len(places) > 1}
        if not names and not several:
            raise AbsentError("no dump of GlusterFS io-stats: set diagnostics.stats-dump-interval of the volume")
        rows: Dict[Key, Sequence[Any]] = {}
        unknown, example = 0, ""
        for name in names:
            if name.startswith(_OWN_DUMP):
                continue
            with open(os.path.join(folder or "", name), encoding="utf-8", errors="replace") as file:
                found, strange, one = parse_gluster_iostats(file.read())
            unknown, example = unknown + strange, example or one
            for stats in found:
                # A dump stays when its mount has gone.
                gone = mounts is not None and stats.name not in mounts
                if not stats.name.startswith("brick.") and stats.name not in several and not gone:
                    place = mounts[stats.name][0] if mounts else None
                    rows[(self.node, stats.name, "gluster", place)] = build_gluster_client_row(stats)
        for volume, places in several.items():
            for place in places:
                try:
                    own = self._ask_mount(volume, place)
                except OSError as fault:
                    unknown += 1
                    example = example or "{} is mounted {} times, {} gives no dump of its own: {}".format(
                        volume, len(places), place, fault.strerror or fault
                    )
                    continue
                rows[(self.node, volume, "gluster", place)] = build_gluster_client_row(own)
        return ProbeResult([Reading("pfs_client", self.keys, self.counters, (), rows, None, unknown, example)])

    def _list_mounts(self) -> Optional[Dict[str, List[str]]]:
        """Folders by volume in /proc/mounts; None where that cannot be read."""
        found: Dict[str, List[str]] = {}
        try:
            with open(os.path.join(self.root, "proc/mounts"), encoding="utf-8", errors="surrogateescape") as file:
                for line in file:
                    words = line.split(" ")
                    if len(words) > 2 and words[2] == "fuse.glusterfs":
                        volume = words[0].partition(":")[2].strip("/").partition("/")[0]
                        found.setdefault(volume, []).append(words[1])
        except OSError:
            return None
        return found

    def _ask_mount(self, volume: str, place: str) -> IoStats:
        """A dump of this mount alone, written by its client process. Raises OSError."""
        pid = self._find_client(place)
        name = "{}{}".format(_OWN_DUMP, pid)
        folder = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), place)
        os.setxattr(
            os.path.join(self.root, folder.lstrip("/")), "trusted.io-stats-{}_json_dump".format(pid), name.encode()
        )
        for one in ("var/run/gluster", "run/gluster"):
            path = os.path.join(self.root, one, "{}.{}".format(name, volume))
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found, _, _ = parse_gluster_iostats(file.read())
                os.unlink(path)
                for stats in found:
                    if stats.name == volume:
                        return stats
        raise OSError("the dump was not written to /var/run/gluster")

    def _find_client(self, place: str) -> int:
        """The process of a mount. Raises OSError."""
        proc = os.path.join(self.root, "proc")
        for name in os.listdir(proc):
            if not name.isdigit():
                continue
            try:
                with open(os.path.join(proc, name, "cmdline"), "rb") as file:
                    words = file.read().rstrip(b"\0").split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == b"glusterfs" and words[-1] == place.encode("utf-8", "surrogateescape"):
                return int(name)
        raise OSError("its process was not found")


_OWN_DUMP = "fairlead-stats-"


def build_gluster_client_row(stats: IoStats) -> List[int]:
    """Values of `Clients.counters`."""
    other = sum(n for op, n in stats.calls.items() if op not in DATA_CALLS and op not in NOT_ASKED)
    return [stats.calls.get("READ", 0), stats.calls.get("WRITE", 0), other, stats.read_bytes, stats.write_bytes]
