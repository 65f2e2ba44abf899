"""Processes of benchmarks/interference.py: a forwarder that tells at its end what it used, and jobs of closed-loop
clients that speak the forwarding protocol themselves, so that no mount's CPU is measured with them.

`python _closed_loop.py serve|job JSON`; each prints one JSON object when it ends.
"""

from __future__ import annotations

import json
import os
import resource
import select
import sys
import time
from pathlib import Path

import msgspec

from fairlead.steer.forwarding.forwarder.run import Options, run_forwarder
from fairlead.steer.fs.client.dial import Dial
from fairlead.steer.fs.client.link import Link
from fairlead.steer.fs.fuse import abi
from fairlead.steer.fs.fuse.abi import Op
from fairlead.steer.fs.trees.base import ROOT, FileTree
from fairlead.steer.fs.trees.open_tree import open_export
from fairlead.steer.fs.wire.frames import HEAD_BYTES, JOB_IN, PREFIX_BYTES, REPLY, Own
from fairlead.steer.fs.wire.handshake import Identity

HEADER = abi.IN_HEADER.pack
DATA_BODY = abi.WRITE_IN.pack


def used() -> dict[str, float]:
    """Processor seconds and peak memory of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}


def serve(options: dict[str, object]) -> dict[str, object]:
    """A forwarder until SIGTERM; what its (simulated) device moved, when there is one."""
    opened: list[FileTree] = []

    def open_tree(spec: str) -> FileTree:
        opened.append(open_export(spec))
        return opened[0]

    settings = options.pop("settings", None)
    run_forwarder(
        Options(**options, job_settings=Path(str(settings)) if settings else None),  # type: ignore[arg-type]
        lambda address: print(f"ready {address}", file=sys.stderr, flush=True),
        open_tree=open_tree,
    )
    device = getattr(opened[0], "device", None)
    moved = {"device_bytes": device.bytes, "device_operations": device.operations} if device is not None else {}
    return used() | moved


class Client:
    """One connection: asks and waits, or keeps many requests under way."""

    def __init__(self, address: str, job: str, slots: int) -> None:
        self.link = Link(Dial([address], slots=max(1, slots)).connect_any())
        self.number = 0
        self._poll = select.poll()
        self._poll.register(self.link.descriptor, select.POLLIN)
        announced = JOB_IN.pack(1, 0) + msgspec.json.encode(Identity(job))
        self.ask(int(Own.JOB), 0, announced, job=0)

    def send(self, op: int, node: int, body: bytes, *, handle: int = 0, job: int = 1) -> int:
        """A request with its whole message."""
        self.number += 1
        self.link.put(self.number, job, handle, HEADER(40 + len(body), op, 0, node, 0, 0, 1, 0, 0) + body)
        return self.number

    def send_data(self, op: int, node: int, handle: int, offset: int, size: int, slot: int) -> int:
        """A READ into a slot, or a WRITE of what is in it."""
        self.number += 1
        length = HEAD_BYTES + (size if op == Op.WRITE else 0)
        message = HEADER(length, op, 0, node, 0, 0, 1, 0, 0) + DATA_BODY(handle, offset, size, 0, 0, 0, 0)
        self.link.put_slotted(self.number, 1, slot, memoryview(message), 0)
        return self.number

    def replies(self, until_ns: int) -> list[tuple[int, int, bytes]]:
        """(number, error, body) of what has come; waits for some until then."""
        link = self.link
        link.flush()
        left_ms = max(0, (until_ns - time.monotonic_ns()) // 1_000_000)
        if not self._poll.poll(left_ms) or not link.receive():
            return []
        found = []
        while link.end - link.begin >= PREFIX_BYTES:
            length, _, _, number, error, _, _, _ = REPLY.unpack_from(link.buffer, link.begin)
            stop = link.begin + PREFIX_BYTES + length
            if stop > link.end:
                break
            found.append((number, error, bytes(link.view[link.begin + PREFIX_BYTES : stop])))
            link.begin = stop
        return found

    def ask(self, op: int, node: int, body: bytes, *, handle: int = 0, job: int = 1) -> bytes:
        """A request and its answer."""
        number = self.send(op, node, body, handle=handle, job=job)
        end = time.monotonic_ns() + 60_000_000_000
        while time.monotonic_ns() < end:
            for answered, error, answer in self.replies(end):
                if answered == number:
                    if error:
                        raise OSError(-error, os.strerror(-error) if error < 0 else f"refusal {error}")
                    return answer
        raise SystemExit("the forwarder does not answer")

    def create(self, name: str, handle: int) -> int:
        """Opens (and makes) a file under a handle; its node."""
        body = abi.CREATE_IN.pack(os.O_RDWR, 0o100644, 0, 0) + name.encode() + b"\0"
        try:
            answer = self.ask(Op.CREATE, ROOT, body, handle=handle)
            return int(abi.ENTRY.unpack_from(answer)[0])
        except FileExistsError:
            node = int(abi.ENTRY.unpack_from(self.ask(Op.LOOKUP, ROOT, name.encode() + b"\0"))[0])
            self.ask(Op.OPEN, node, abi.OPEN_IN.pack(os.O_RDWR, 0), handle=handle)
            return node


def run_job(order: dict[str, object]) -> dict[str, object]:
    """Closed-loop clients of one job.

    `kind`: metadata (GETATTR), write or read; `shared`: all in one file, interleaved with gaps between them (without,
    when `adjacent`), else one file each;
    `bytes`: each client ends after so many, else all at `end_ns`. Says `ready`, then reads its times: counted is what
    was answered from `begin_ns` on.
    """
    kind, clients, size = str(order["kind"]), int(order["clients"]), int(order.get("size", 0))  # type: ignore[call-overload]
    each_bytes = int(order.get("bytes", 0))  # type: ignore[call-overload]
    client = Client(str(order["address"]), str(order["job"]), clients if size else 1)
    shared = bool(order.get("shared"))
    names = [f"{order['job']}.{0 if shared else number}" for number in range(clients)]
    first = client.create(names[0], 1)
    nodes = [first if shared or not number else client.create(names[number], number + 1) for number in range(clients)]
    handles = [1 if shared else number + 1 for number in range(clients)]
    op = {"metadata": Op.GETATTR, "write": Op.WRITE, "read": Op.READ}[kind]
    apart = size if order.get("adjacent") else 2 * size
    places = [number * apart if shared else 0 for number in range(clients)]
    step = apart * clients if shared else size
    attributes = abi.GETATTR_IN.pack(0, 0, 0)
    under_way: dict[int, tuple[int, int]] = {}
    if each_bytes:  # files get their targets with their first byte, all at once
        expected = {client.send_data(op, nodes[n], handles[n], 0, 1, n) for n in range(clients)}
        while expected:
            expected -= {answered for answered, _, _ in client.replies(time.monotonic_ns() + 1_000_000_000)}
    print("ready", flush=True)
    start_ns, begin_ns, end_ns = json.loads(sys.stdin.readline())
    left = [each_bytes] * clients

    def send(number: int) -> None:
        if size:
            sent = client.send_data(op, nodes[number], handles[number], places[number], size, number)
            places[number] += step
        else:
            sent = client.send(op, nodes[number], attributes)
        under_way[sent] = (number, time.monotonic_ns())

    time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / 1e9))
    cpu_before = used()["cpu_s"]
    began = time.monotonic_ns()
    for number in range(clients):
        send(number)
    responses: list[int] = []
    errors = 0
    last = began
    while under_way and (each_bytes or time.monotonic_ns() < end_ns):
        for answered, error, _ in client.replies(end_ns):
            number, sent_ns = under_way.pop(answered)
            last = time.monotonic_ns()
            errors += error != 0
            if last >= begin_ns:
                responses.append(last - sent_ns)
            if each_bytes:
                left[number] -= size
                if left[number] <= 0:
                    continue
            send(number)
        if each_bytes and time.monotonic_ns() > end_ns:
            break
    responses.sort()
    wall_s = (last - (began if each_bytes else begin_ns)) / 1e9
    return {
        "requests": len(responses),
        "errors": errors,
        "bytes": len(responses) * size,
        "wall_s": wall_s,
        "mean_ms": sum(responses) / max(1, len(responses)) / 1e6,
        "p50_ms": responses[len(responses) // 2] / 1e6 if responses else None,
        "p99_ms": responses[len(responses) * 99 // 100] / 1e6 if responses else None,
        "unfinished": len(under_way) if each_bytes else 0,
        "cpu_s": used()["cpu_s"] - cpu_before,
        "peak_bytes": used()["peak_bytes"],
    }


if __name__ == "__main__":
    print(json.dumps({"serve": serve, "job": run_job}[sys.argv[1]](json.loads(sys.argv[2]))))
