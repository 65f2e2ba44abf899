"""NFS: mounts of a client (/proc/self/mountstats) and the kernel's own server (/proc/net/rpc/nfsd). No root needed.

Not here: other servers (nfs-ganesha, appliances); what a mount's RPCs mean for a job (the rollups).
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Key, Probe, ProbeResult, Reading

MS_NS = 1000000
READS, WRITES = ("READ", "READ_PLUS"), ("WRITE",)
UPKEEP = frozenset(
    (
        "NULL",
        "RENEW",
        "SETCLIENTID",
        "SETCLIENTID_CONFIRM",
        "EXCHANGE_ID",
        "CREATE_SESSION",
        "DESTROY_SESSION",
        "SEQUENCE",
        "RECLAIM_COMPLETE",
        "GET_LEASE_TIME",
        "DESTROY_CLIENTID",
        "BIND_CONN_TO_SESSION",
        "SERVER_CAPS",
        "FSID_PRESENT",
        "SECINFO",
        "SECINFO_NO_NAME",
        "TEST_STATEID",
        "FREE_STATEID",
        "GETDEVICEINFO",
        "GETDEVICELIST",
        "LAYOUTSTATS",
        "LAYOUTERROR",
        "RELEASE_LOCKOWNER",
    )
)
"""Requests no program waits for: leases, sessions, what the server can do."""
CLIENT_COUNTERS = (
    "read_rpcs",
    "write_rpcs",
    "read_bytes",
    "write_bytes",
    "metadata_ops",
    "read_busy_ns",
    "write_busy_ns",
    "metadata_busy_ns",
    "wait_ns",
    "server_ns",
    "retransmits",
    "timeouts",
)
_HEAD = re.compile(r"device (.+) mounted on (.+) with fstype (\S+)(?: statvers=(\S+))?\s*\Z")
_KNOWN_LINES = (
    "opts",
    "impl_id",
    "caps",
    "nfsv4",
    "sec",
    "events",
    "RPC iostats version",
    "xprt",
    "fsc",
    "per-op stat",
)
_OP = re.compile(r"\s+([A-Z][A-Z0-9_]*): ((?:\d+ ?){8,9})\s*\Z")


class Op(NamedTuple):
    """One operation of a mount since it was mounted. `execute_ms` is from the program's request to its end; of that,
    `queue_ms` before it was sent and `rtt_ms` from the sending to the reply."""

    operations: int
    transmissions: int
    timeouts: int
    queue_ms: int
    rtt_ms: int
    execute_ms: int


class Mount(NamedTuple):
    """One NFS mount: `export` is SERVER:/PATH; bytes are those that crossed the network."""

    export: str
    place: str
    age_s: Optional[int]
    read_bytes: Optional[int]
    write_bytes: Optional[int]
    ops: Dict[str, Op]


def parse_mountstats(text: str) -> Tuple[List[Mount], int, str]:
    """NFS mounts of a mountstats text (statvers 1.0 and 1.1, any mix of versions of NFS), lines not understood, and one
    of these. Other file systems are passed over."""
    found: List[Mount] = []
    current: Optional[Mount] = None
    unknown, example = 0, ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head or line.startswith(("device ", "no device ")):
            current = None
            if head and head.group(3) in ("nfs", "nfs4"):
                current = Mount(_unescape(head.group(1)), _unescape(head.group(2)), None, None, None, {})
                found.append(current)
            continue
        if current is None:
            continue
        op = _OP.match(line)
        name, colon, rest = line.strip().partition(":")
        if op:
            n = [int(word) for word in op.group(2).split()]
            current.ops[op.group(1)] = Op(n[0], n[1], n[2], n[5], n[6], n[7])
        elif name == "age" and rest.strip().isdigit():
            current = found[-1] = current._replace(age_s=int(rest))
        elif name == "bytes" and len(rest.split()) >= 6 and all(word.isdigit() for word in rest.split()):
            words = rest.split()
            current = found[-1] = current._replace(read_bytes=int(words[4]), write_bytes=int(words[5]))
        elif name and not (name.startswith(_KNOWN_LINES) and (colon or name.startswith("per-op"))):
            unknown += 1
            example = example or line.strip()[:80]
    return found, unknown, example


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), text)


def parse_mount_devices(text: str) -> Dict[str, str]:
    """The device (major:minor) of each mount point in a mountinfo text. Mounts of one device share their counters."""
    found = {}
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) > 5:
            found[_unescape(words[4])] = words[2]
    return found


class NfsMounts(Probe):
    """NFS mounts of this node: RPCs, bytes on the network, how long they took, what was sent again. One row a mount;
    and each client's operations by name as rows of `metadata` (`source` mountstats, a part of what servers count)."""

    name = "nfs"
    period_s = 5.0

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._ages: Dict[Key, Tuple[int, int]] = {}

    def read(self, now_ns: int) -> ProbeResult:
        """Raises AbsentError where nothing is mounted by NFS, OSError."""
        text = _read(os.path.join(self.root, "proc/self/mountstats"))
        mounts, unknown, example = parse_mountstats(text or "")
        if not mounts:
            raise AbsentError("no NFS mount in /proc/self/mountstats")
        devices = parse_mount_devices(_read(os.path.join(self.root, "proc/self/mountinfo")) or "")
        rows: Dict[Key, Sequence[Any]] = {}
        ops: Dict[Key, Mount] = {}
        epochs: Dict[Key, int] = {}
        op_epochs: Dict[Key, int] = {}
        seen = set()
        for mount in mounts:
            device = devices.get(mount.place)
            if (mount.export, device) in seen and device is not None:
                continue  # a second mount of the same superblock: the same counters again
            seen.add((mount.export, device))
            key = (mount.export, mount.place)
            if key in rows:
                continue
            rows[key] = build_nfs_client_row(mount)
            epochs[key] = self._find_epoch(key, mount, now_ns)
            op_key = (
                mount.export.rpartition(":")[0] or mount.export,
                self.node or None,
                mount.export + " " + mount.place,
            )
            ops[op_key] = mount
            op_epochs[op_key] = epochs[key]
        self._ages = {key: age for key, age in self._ages.items() if key in rows}
        where = (("node", self.node or None), ("source", "nfs"))
        whole = Reading(
            "pfs_client",
            ("fs", "mount"),
            CLIENT_COUNTERS,
            (),
            rows,
            epochs,
            unknown,
            example,
            where,
            born_at_zero=True,
        )
        return ProbeResult([whole, self._build_operations(ops, op_epochs)])

    def _find_epoch(self, key: Key, mount: Mount, now_ns: int) -> int:
        """When the mount's counting began. Ages are whole seconds: an epoch changes only where the age shrinks."""
        age = mount.age_s or 0
        last = self._ages.get(key)
        epoch = last[1] if last is not None and age >= last[0] else now_ns - age * 10**9
        self._ages[key] = (age, epoch)
        return epoch

    def _build_operations(self, mounts: Dict[Key, Mount], epochs: Dict[Key, int]) -> Reading:
        """Counts and times of operations other than reads and writes, by server, client and mount."""
        names = sorted({op for mount in mounts.values() for op in mount.ops if is_nfs_metadata(op)})
        rows: Dict[Key, Sequence[Any]] = {}
        for key, mount in mounts.items():
            told = [mount.ops.get(op) for op in names]
            rows[key] = [one and one.operations for one in told] + [one and one.execute_ms * MS_NS for one in told]
        return Reading(
            "metadata",
            ("server", "client", "target"),
            tuple(name.lower() for name in names) * 2,
            (),
            rows,
            epochs,
            constant=(("source", "mountstats"),),
            spread=("op", "count", "busy_ns"),
            born_at_zero=True,
        )


def is_nfs_metadata(op: str) -> bool:
    """Whether an operation is one of metadata: no read, no write, and no upkeep of the connection."""
    return op not in READS and op not in WRITES and op not in UPKEEP


def build_nfs_client_row(mount: Mount) -> List[Optional[int]]:
    """Values of CLIENT_COUNTERS."""
    reads = [mount.ops[op] for op in READS if op in mount.ops]
    writes = [mount.ops[op] for op in WRITES if op in mount.ops]
    metadata = [one for op, one in mount.ops.items() if is_nfs_metadata(op)]
    asked = reads + writes + metadata
    return [
        sum(one.operations for one in reads),
        sum(one.operations for one in writes),
        mount.read_bytes,
        mount.write_bytes,
        sum(one.operations for one in metadata),
        *(sum(one.execute_ms for one in part) * MS_NS for part in (reads, writes, metadata)),
        sum(one.queue_ms for one in asked) * MS_NS,
        sum(one.rtt_ms for one in asked) * MS_NS,
        sum(max(0, one.transmissions - one.operations) for one in asked),
        sum(one.timeouts for one in asked),
    ]


# -- the server --------------------------------------------------------------------------------------------------------

_PROC3_WORDS = (
    "null getattr setattr lookup access readlink read write create mkdir symlink mknod remove rmdir rename link readdir"
    " readdirplus fsstat fsinfo pathconf commit"
)
_OPS4_WORDS = (
    "- - - access close commit create delegpurge delegreturn getattr getfh link lock lockt locku lookup lookupp nverify"
    " open openattr open_confirm open_downgrade putfh putpubfh putrootfh read readdir readlink remove rename renew"
    " restorefh savefh secinfo setattr setclientid setclientid_confirm verify write release_lockowner backchannel_ctl"
    " bind_conn_to_session exchange_id create_session destroy_session free_stateid get_dir_delegation getdeviceinfo"
    " getdevicelist layoutcommit layoutget layoutreturn secinfo_no_name sequence set_ssv test_stateid want_delegation"
    " destroy_clientid reclaim_complete allocate copy copy_notify deallocate io_advise layouterror layoutstats"
    " offload_cancel offload_status read_plus seek write_same clone getxattr setxattr listxattrs removexattr"
)
_STEPS = "null putfh putpubfh putrootfh getfh savefh restorefh nverify verify delegpurge want_delegation"
PROC3 = _PROC3_WORDS.split()
"""Procedures of NFS 3 by their number (RFC 1813)."""
OPS4 = _OPS4_WORDS.split()
"""Operations of NFS 4 by their number (RFC 7530, 8881, 7862, 8276); the first three are none."""
_NO_REQUEST = frozenset(_STEPS.split()) | frozenset(name.lower() for name in UPKEEP)
"""Steps of a compound request and upkeep: no metadata operations."""
_SERVER_COUNTERS = ("read_rpcs", "write_rpcs", "read_bytes", "write_bytes", "metadata_ops")
_SERVER_LINES = ("rc", "fh", "th", "ra", "net", "rpc", "proc2", "proc4", "wdeleg_getattr")
_WIDE_SINCE = (5, 13)
"""Linux before this counts bytes in 32 bits."""


class NfsdStats(NamedTuple):
    """What the kernel's server has counted since it was started: bytes, operations by name (versions 3 and 4)."""

    read_bytes: int
    write_bytes: int
    ops: Dict[str, int]


def parse_nfsd_stats(text: str) -> Tuple[Optional[NfsdStats], int, str]:
    """/proc/net/rpc/nfsd, lines and operations not understood, and one of these; None where it holds no counters."""
    moved: Optional[Tuple[int, int]] = None
    ops: Dict[str, int] = {}
    unknown, example = 0, ""
    for line in text.splitlines():
        words = line.split()
        strange = ""
        if not words:
            continue
        numbers = [int(word) for word in words[1:] if word.isdigit()]
        if words[0] == "io" and len(numbers) >= 2:
            moved = (numbers[0], numbers[1])
        elif words[0] in ("proc3", "proc4ops") and numbers and len(numbers) == numbers[0] + 1:
            names = PROC3 if words[0] == "proc3" else OPS4
            for place, count in enumerate(numbers[1:]):
                name = names[place] if place < len(names) else "other"
                if name != "-" and count:
                    ops[name] = ops.get(name, 0) + count
        elif words[0] not in _SERVER_LINES:
            strange = line.strip()[:80]
        if strange:
            unknown += 1
            example = example or strange
    return (None if moved is None else NfsdStats(moved[0], moved[1], ops)), unknown, example


class NfsServer(Probe):
    """The kernel's NFS server: bytes, reads and writes as one target (`NODE:nfsd`), operations by name. It counts no
    times: how long requests take is known from clients only."""

    name = "nfsd"
    period_s = 5.0

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where no server runs, OSError."""
        text = _read(os.path.join(self.root, "proc/net/rpc/nfsd"))
        stats, unknown, example = parse_nfsd_stats(text or "")
        if stats is None:
            raise AbsentError("no /proc/net/rpc/nfsd: the kernel's NFS server does not run on this node")
        asked = {op: count for op, count in stats.ops.items() if op not in _NO_REQUEST}
        reads = sum(asked.pop(op.lower(), 0) for op in READS)
        writes = sum(asked.pop(op.lower(), 0) for op in WRITES)
        target = "{}:nfsd".format(self.node)
        row = [reads, writes, stats.read_bytes, stats.write_bytes, sum(asked.values())]
        where = (("server", self.node or None), ("source", "nfsd"))
        moved = Reading(
            "target",
            ("target",),
            _SERVER_COUNTERS,
            (),
            {(target,): row},
            None,
            unknown,
            example,
            where,
            wraps=self._list_wraps(),
        )
        calls: Dict[Key, Sequence[Any]] = {(op,): [count] for op, count in asked.items()}
        return ProbeResult([moved, Reading("metadata", ("op",), ("count",), (), calls, None, 0, "", where)])

    def _list_wraps(self) -> Tuple[Tuple[str, int], ...]:
        """Counters of 32 bits, by the version of the kernel."""
        version = re.match(r"(\d+)\.(\d+)", _read(os.path.join(self.root, "proc/sys/kernel/osrelease")) or "")
        old = version is not None and (int(version.group(1)), int(version.group(2))) < _WIDE_SINCE
        return (("read_bytes", 32), ("write_bytes", 32)) if old else ()


def _read(path: str) -> Optional[str]:
    """The text of a file, None where there is none. Raises OSError."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
