"""A play as the proc trees of its servers and clients, rewritten tick by tick: what agents with `--root` can watch.

The counters grow by exactly what the play's records of the same seconds say. Simulated; formats as of Lustre 2.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairlead.decide.sim.steps import I64
from fairlead.kit.testing.machine.client_rows import NS, build_client_runs
from fairlead.kit.testing.machine.course import DATA, OPS
from fairlead.kit.testing.machine.files import format_machine_job_id
from fairlead.kit.testing.machine.play import Play
from fairlead.kit.testing.machine.server_rows import Account, build_server_account, sum_server_rows

MDT_WORDS = {"open": "open", "close": "close", "create": "mknod", "getattr": "getattr", "unlink": "unlink"}
PROC = Path("proc/fs/lustre")
PAGE = 4096


class MachineTree:
    """Roots under `folder`, one a host: `roots["oss000"]` is what an agent on oss000 takes for `/`.

    Hosts are all storage and metadata servers and `clients` (names of forwarders, or of nodes where there are none;
    default: all forwarders, or the first four nodes; `exports` tell of these). `tick(to_s)` plays on to that second and
    rewrites every file, each whole by renaming.
    """

    def __init__(self, play: Play, folder: Path, clients: Sequence[str] | None = None) -> None:
        machine = play.machine
        self.play = play
        self.now_s = 0
        named = machine.forwarders.names.__getitem__ if len(machine.forwarders) else machine.format_node_name
        everyone = [named(n) for n in range(len(machine.forwarders) or machine.nodes)]
        chosen = everyone[: len(machine.forwarders) or 4] if clients is None else clients
        self._clients = {everyone.index(name): name for name in chosen}
        hosts = [machine.servers.names[n] for n in range(len(machine.servers))]
        hosts += [machine.mds.names[n] for n in range(len(machine.mds))]
        self.roots = {host: folder / host for host in (*hosts, *chosen)}
        self._data: dict[tuple[int, ...], np.ndarray] = {}
        self._meta: dict[tuple[int, ...], int] = {}
        self._write_all()

    def advance(self, to_s: int) -> None:
        """Play on to `to_s` (not beyond the play) and rewrite."""
        stop = min(to_s, self.play.seconds)
        if stop <= self.now_s:
            return
        course = self.play.course
        t = self.play.build_traffic(self.now_s, stop)
        a = build_server_account(course, t)
        self._count_data(a)
        self._count_metadata(a.target, a.op, a.job, a.forwarder, a.requests)
        if not len(self.play.machine.forwarders):
            runs = build_client_runs(course, t, self.play.seed)
            flow = t.flow[runs.row]
            node, count = course.node[runs.lane].astype(np.int64), runs.count
            self._count_clients(
                node,
                course.op[flow].astype(np.int64),
                course.target[flow].astype(np.int64),
                count,
                count * course.size[flow],
            )
        else:
            self._count_clients(a.forwarder, a.op, a.target, a.requests, a.bytes)
        self.now_s = stop
        self._write_all()

    # What has been counted: _data[kind, key...] = samples, bytes, smallest, largest; _meta[kind, key...] = count.

    def _count_data(self, a: Account) -> None:
        data = (a.op < DATA) & (a.requests > 0)
        size = a.bytes[data] // a.requests[data]
        self._add(0, [a.target[data], a.op[data]], a.requests[data], a.bytes[data], size)
        self._add(1, [a.target[data], a.op[data], a.job[data]], a.requests[data], a.bytes[data], size)
        pages = np.ceil(np.log2(np.maximum(size, PAGE) / PAGE)).astype(np.int64)
        self._add(2, [a.target[data], a.op[data], pages], a.requests[data], a.bytes[data], size)

    def _count_metadata(self, mds: I64, op: I64, job: I64, client: I64, count: I64) -> None:
        meta = (op >= DATA) & (count > 0)
        for kind, keys in ((0, [mds, op]), (1, [mds, op, job]), (2, [mds, op, client])):
            found, (total,) = sum_server_rows([key[meta] for key in keys], [count[meta]])
            for i, value in enumerate(total):
                key = (kind, *(int(column[i]) for column in found))
                self._meta[key] = self._meta.get(key, 0) + int(value)

    def _count_clients(self, client: I64, op: I64, target: I64, count: I64, size: I64) -> None:
        here = np.isin(client, list(self._clients)) & (count > 0)
        client, op, target, count, moved = client[here], op[here], target[here], count[here], size[here]
        data = op < DATA
        each = moved[data] // count[data]
        self._add(3, [client[data], op[data]], count[data], moved[data], each)
        self._add(4, [client[data], op[data], target[data]], count[data], moved[data], each)
        found, (total,) = sum_server_rows([client[~data], op[~data]], [count[~data]])
        for i, value in enumerate(total):
            key = (3, int(found[0][i]), int(found[1][i]))
            self._meta[key] = self._meta.get(key, 0) + int(value)

    def _add(self, kind: int, keys: Sequence[I64], count: I64, moved: I64, size: I64) -> None:
        if not len(count):
            return
        found, (samples, total) = sum_server_rows(keys, [count, moved])
        rows = np.stack(keys, axis=1)
        for i in range(len(samples)):
            own = tuple(int(column[i]) for column in found)
            sizes = size[(rows == np.array(own)).all(axis=1)]
            new = np.array([int(samples[i]), int(total[i]), int(sizes.min()), int(sizes.max())], np.int64)
            old = self._data.get((kind, *own))
            if old is not None:
                new = np.array([old[0] + new[0], old[1] + new[1], min(old[2], new[2]), max(old[3], new[3])])
            self._data[(kind, *own)] = new

    # Texts.

    def _write_all(self) -> None:
        machine = self.play.machine
        used = self.play.count_used_bytes(self.now_s)
        for target in range(len(machine.targets)):
            self._write_target(target, int(used[target]))
        for mds in range(len(machine.mds)):
            self._write_mdt(mds)
        for number, name in self._clients.items():
            self._write_client(number, name)

    @property
    def _stamp(self) -> str:
        now_ns = self.play.origin_ns + self.now_s * NS
        return f"{'snapshot_time':<25} {now_ns // NS}.{now_ns % NS:09d} secs.nsecs\n"

    def _stats(self, key: tuple[int, ...]) -> str:
        """Lines of read_bytes and write_bytes of what `key` names (its second number is the operation)."""
        lines = ""
        for op in range(DATA):
            found = self._data.get((*key[:2], op, *key[2:]))
            if found is not None:
                samples, total, low, high = (int(value) for value in found)
                lines += f"{OPS[op] + '_bytes':<25} {samples} samples [bytes] {low} {high} {total}\n"
        return lines

    def _write_target(self, target: int, used: int) -> None:
        machine = self.play.machine
        name = machine.targets.names[target]
        root = self.roots[machine.servers.names[target // machine.targets_per_server]] / PROC
        own = root / "obdfilter" / name
        _put(own / "stats", self._stamp + self._stats((0, target)))
        _put(own / "job_stats", self._job_stats(target))
        free = (machine.target_bytes - used) >> 10
        sizes = {"kbytestotal": machine.target_bytes >> 10, "kbytesfree": free, "kbytesavail": free}
        for leaf, value in {**sizes, "filestotal": 10_000_000, "filesfree": 9_000_000}.items():
            _put(own / leaf, f"{value}\n")
        _put(root / "osd-ldiskfs" / name / "brw_stats", self._brw_stats(target))

    def _job_stats(self, target: int) -> str:
        jobs = sorted({key[3] for key in self._data if key[:2] == (1, target)})
        text = "job_stats:\n"
        second = (self.play.origin_ns // NS) + self.now_s
        for job in jobs:
            job_id = format_machine_job_id(self.play.course.jobs[job].drawn)
            text += f"- job_id:          {job_id}\n  snapshot_time:   {second}\n"
            for op in range(DATA):
                samples, total, low, high = self._data.get((1, target, op, job), np.zeros(4, np.int64))
                text += f"  {OPS[op] + '_bytes:':<16} {{ samples: {samples:>11}, unit: bytes, "
                text += f"min: {low:>7}, max: {high:>7}, sum: {total:>15} }}\n"
            text += "".join(
                f"  {word + ':':<16} {{ samples: {0:>11}, unit:  reqs }}\n" for word in ("getattr", "setattr")
            )
        return text

    def _brw_stats(self, target: int) -> str:
        now_ns = self.play.origin_ns + self.now_s * NS
        bins = [[self._data.get((2, target, op, b), np.zeros(4, np.int64))[0] for op in range(DATA)] for b in range(11)]
        read, write = (max(int(sum(row[op] for row in bins)), 1) for op in range(DATA))
        text = f"snapshot_time:         {now_ns // NS}.{now_ns % NS:09d} (secs.nsecs)\n\n"
        text += "                           read      |     write\n"
        text += "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %\n"
        so_far = [0, 0]
        for b, (r, w) in enumerate(bins):
            so_far = [so_far[0] + int(r), so_far[1] + int(w)]
            label = f"{1 << b}" if b < 10 else "1K"
            text += (
                f"{label}:\t\t{r:>10} {100 * int(r) // read:>3} {100 * so_far[0] // read:>3}   |"
                f" {w:>4} {100 * int(w) // write:>3} {100 * so_far[1] // write:>3}\n"
            )
        return text

    def _write_mdt(self, mds: int) -> None:
        machine = self.play.machine
        own = self.roots[machine.mds.names[mds]] / PROC / "mdt" / f"{machine.file_system}-MDT{mds:04x}"
        counted = [(key[2], key, value) for key, value in sorted(self._meta.items()) if key[1] == mds and key[0] < 3]
        _put(own / "md_stats", self._stamp + _ops([(op, value) for op, key, value in counted if key[0] == 0]))
        text = "job_stats:\n"
        second = (self.play.origin_ns // NS) + self.now_s
        for job in sorted({key[3] for _, key, _ in counted if key[0] == 1}):
            job_id = format_machine_job_id(self.play.course.jobs[job].drawn)
            text += f"- job_id:          {job_id}\n  snapshot_time:   {second}\n"
            for op in range(DATA, len(OPS)):
                value = self._meta.get((1, mds, op, job), 0)
                text += f"  {MDT_WORDS[OPS[op]] + ':':<16} {{ samples: {value:>11}, unit:  reqs }}\n"
        _put(own / "job_stats", text)
        if len(machine.forwarders):
            for client in sorted({key[3] for _, key, _ in counted if key[0] == 2}):
                lines = _ops([(op, value) for op, key, value in counted if key[0] == 2 and key[3] == client])
                _put(own / "exports" / _nid(client) / "stats", self._stamp + lines)

    def _write_client(self, number: int, name: str) -> None:
        machine = self.play.machine
        root = self.roots[name] / PROC
        mount = f"{machine.file_system}-ffff88105db5{number:04x}"
        counted = [(key[2], value) for key, value in sorted(self._meta.items()) if key[:2] == (3, number)]
        _put(root / "llite" / mount / "stats", self._stamp + self._stats((3, number)) + _ops(counted, "regs"))
        for target in sorted({key[3] for key in self._data if key[:2] == (4, number)}):
            lines = self._stats((4, number, target))
            server = machine.servers.names[target // machine.targets_per_server]
            own = self.roots[server] / PROC / "obdfilter" / machine.targets.names[target]
            _put(own / "exports" / _nid(number) / "stats", self._stamp + lines)
            folder = f"{machine.targets.names[target]}-osc-ffff88105db5{number:04x}"
            _put(root / "osc" / folder / "stats", self._stamp + lines)


def _ops(counted: Sequence[tuple[int, int]], unit: str = "reqs") -> str:
    return "".join(f"{MDT_WORDS[OPS[op]]:<25} {value} samples [{unit}]\n" for op, value in counted)


def _nid(client: int) -> str:
    return f"10.1.{client >> 8}.{client & 255}@o2ib"


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
