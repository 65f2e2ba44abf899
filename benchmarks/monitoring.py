"""Live monitoring of a whole machine by one small server: the table, target by target.

`python benchmarks/monitoring.py [--quick] [--only SECTION...] [--no-history]`

- `taihulight`: 40,960 compute nodes, 288 forwarders, 288 storage nodes and 2 MDS, simulated; what their agents would
  send in a stretch of an ordinary hour and of a burst hour (10 times the I/O), made beforehand, sent through the real
  endpoint as fast as answers come. Headroom is machine time over the time the server took for it.
- `ingest`: rows of `ops` as nodes send them after the first pass, for a minute, as fast as answers come.
- `agent`, `probes`, `second_pass`, `questions`, `bandwidth`, `slowdown`: the benchmarks of these names, their tables.

The server runs beside the senders on the same cores; processor time of both is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lake_ingest
from _endpoint import MIB, Sent, Server, Watch, send, server
from _history import append
from rich.console import Console
from rich.table import Table

from fairlead.core.batches.decoding import decode_body_headers
from fairlead.core.batches.encoding import PREFIX
from fairlead.core.clock import now_ns

HERE = Path(__file__).resolve().parent
DAY_S = 86_400
ROWS_PER_S = 12_000
"""Rows of `ops` of an ordinary hour: with the other records some 80 GB a day, the upper part of what Beacon made."""
DIFFERENT = 8_000_000
BEACON_DAY = (10e9, 100e9)
"""Bytes of monitoring data TaihuLight made a day, compressed (Beacon, TOS 2023, section 6)."""
OTHERS = {
    "agent": ["agent_cost.py"],
    "probes": ["agent_probes.py"],
    "second_pass": ["second_pass.py"],
    "questions": ["questions.py"],
    "bandwidth": ["recorded_bandwidth.py"],
    "slowdown": ["watching_cost.py"],
}
Row = tuple[str, str, str]


def taihulight(quick: bool, rows_per_s: int) -> tuple[list[Row], dict[str, Any]]:
    """The whole machine's agents on one server."""
    rows: list[Row] = []
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-taihulight-") as name:
        folder = Path(name)
        for hour, load, seconds in (("ordinary", 1.0, 20 if quick else 60), ("burst", 10.0, 10 if quick else 20)):
            command = [sys.executable, __file__, "--make", json.dumps([str(folder), hour, rows_per_s * load, seconds])]
            subprocess.run(command, check=True)
            made = json.loads((folder / f"{hour}.json").read_text())
            (folder / f"server-{hour}").mkdir()
            with server(folder / f"server-{hour}") as to:
                sent, used, backlog = through(to, folder / hour, made["ends"], connections=64)
                peak = to.peak_bytes()
            day = {key: made[key] * DAY_S / seconds for key in ("rows", "operations", "bytes", "bodies")}
            headroom = seconds / sent.seconds
            figures[hour] = {
                "ops_rows_per_s": rows_per_s * load,
                **{f"{key}_a_day": value for key, value in day.items()},
                "headroom": headroom,
                "bodies_per_s": sent.bodies / sent.seconds,
                "server_cpu_s": used,
                "sender_cpu_s": sent.cpu_s,
                "peak_mib": peak / MIB,
                "backlog_mib": backlog / MIB,
                "machine_s": seconds,
                "took_s": sent.seconds,
            }
            rows += [
                (f"TaihuLight, {hour} hour: bodies and rows a day", f"{day['bodies']:,.0f}, {day['rows']:,.0f}", ""),
                ("  bytes a day on the wire", f"{day['bytes'] / 1e9:.1f} GB", "10 to 100 GB (Beacon)"),
                ("  headroom", f"{headroom:.1f} x", "≥ 5" if hour == "ordinary" else "≥ 1 in the burst"),
                ("  server, sender: processor s", f"{used:.1f}, {sent.cpu_s:.1f} for {seconds} s", ""),
                ("  peak memory of the collector", f"{peak / MIB:,.0f} MiB", "≤ 2,048"),
            ]
    return rows, figures


def make_machine(folder: Path, name: str, rows_per_s: float, seconds: int) -> None:
    """The bodies of one stretch of the machine's time, in one file, and what they hold."""
    from fairlead.kit.testing.machine import steady_load, wire_bodies

    play = steady_load.build_steady_load("taihulight", 11, int(rows_per_s), seconds)
    play = replace(play, origin_ns=now_ns() - 7200 * 10**9)
    told: dict[str, Any] = {"ends": [], "rows": 0, "operations": 0, "bytes": 0, "bodies": 0}
    with (folder / name).open("wb") as out:
        for body in wire_bodies.build_wire_bodies(play, 10):
            told["bytes"] += out.write(body.data)
            told["ends"].append(told["bytes"])
            told["rows"] += body.rows
            told["operations"] += body.operations
            told["bodies"] += 1
    (folder / f"{name}.json").write_text(json.dumps(told))


def through(
    to: Server, path: Path, ends: list[int], *, connections: int, seconds: float | None = None
) -> tuple[Sent, float, int]:
    """Sends; also the processor seconds of the collector and the highest backlog."""
    watch, before = Watch(to), to.cpu_s()
    sent = send(to, path, ends, connections=connections, seconds=seconds)
    used = to.cpu_s() - before
    watch.close()
    return sent, used, max(watch.backlog, default=0)


def carried_over(path: Path) -> Any:
    """The lake of a server that has ended, what waited in its log carried to the tables as the server does."""
    from fairlead.core.compression.node_groups import merge_node_groups
    from fairlead.store.lake import Lake
    from fairlead.store.rollups import derive_rollups

    lake = Lake.open(path)
    lake.open_writer("main", wait_s=60, derive=derive_rollups, regroup=merge_node_groups).close()
    return lake


def bodies_for(folder: Path, rows: int) -> tuple[Path, list[int]]:
    """A file of bodies of at least so many rows, and where each ends. A few million rows are made; they are sent again
    and again as batches of other numbers, which are new to the server. A segment of its log never holds two alike."""
    paths, ends, _ = lake_ingest.prepared(folder, min(rows, DIFFERENT), now_ns() - 3 * 3_600_000_000_000)
    made = [body for path, own in zip(paths[:2], ends[:2], strict=True) for body in lake_ingest.bodies_of(path, own)]
    whole = folder / "all"
    joined: list[int] = []
    with whole.open("wb") as out:
        for turn in range(-(-rows // (len(made) * lake_ingest.ROWS * lake_ingest.IN_A_BODY))):
            for body in made:
                out.write(renumbered(body, turn * 1_000_000))
                joined.append(out.tell())
    return whole, joined


def renumbered(body: bytes, more: int) -> bytes:
    """The batches of a body with numbers that are `more` higher."""
    parts = []
    for _, begin, end in decode_body_headers(body, "the bench"):
        magic, header_bytes, payload_bytes, _ = PREFIX.unpack_from(body, begin)
        first = begin + PREFIX.size + header_bytes
        about = json.loads(body[begin + PREFIX.size : first])
        about["seq"] += more
        text = json.dumps(about, separators=(",", ":")).encode()
        parts += [PREFIX.pack(magic, len(text), payload_bytes, zlib.crc32(text)), text, body[first:end]]
    return b"".join(parts)


def ingest(quick: bool, _: int) -> tuple[list[Row], dict[str, Any]]:
    """A minute of rows of `ops`."""
    seconds = 8.0 if quick else 60.0
    with tempfile.TemporaryDirectory(prefix="fairlead-ingest-") as name:
        folder = Path(name)
        whole, joined = bodies_for(folder, int(seconds * 1_250_000))
        (folder / "server").mkdir()
        with server(folder / "server") as to:
            sent, used, backlog = through(to, whole, joined, connections=8, seconds=seconds)
            peak = to.peak_bytes()
        lake = carried_over(folder / "server" / "lake")
        held = lake.query("SELECT count(*) AS rows, sum(count)::BIGINT AS operations FROM ops").to_pylist()[0]
        size = lake_ingest.lake_bytes(lake)["all"] + sum(p.stat().st_size for p in lake.place.root.rglob("*.wal"))
    expected = sent.bodies * lake_ingest.ROWS * lake_ingest.IN_A_BODY
    assert held["rows"] == expected, f"{held['rows']} rows in the lake, {expected} were acknowledged"
    rate = held["rows"] / sent.seconds
    figures = {
        "rows_per_s": rate,
        "seconds": sent.seconds,
        "rows": held["rows"],
        "bytes_per_row": size / held["rows"],
        "bytes_per_operation": size / held["operations"],
        "peak_mib": peak / MIB,
        "server_cpu_s": used,
        "sender_cpu_s": sent.cpu_s,
        "backlog_mib": backlog / MIB,
        "held_back": sent.held_back,
        "cores": len(os.sched_getaffinity(0)),
    }
    return [
        ("ops rows a second, durable", f"{rate:,.0f} for {sent.seconds:.0f} s", "≥ 1,000,000 for 60 s"),
        ("  bytes a row, an operation", f"{size / held['rows']:.1f}, {size / held['operations']:.1f}", "≤ 18, ≤ 8"),
        ("  peak memory of the collector", f"{peak / MIB:,.0f} MiB", "≤ 2,048"),
        ("  server, sender: processor s", f"{used:.1f}, {sent.cpu_s:.1f}", ""),
        ("  highest backlog, bodies held back", f"{backlog / MIB:,.0f} MiB, {sent.held_back}", ""),
    ], figures


Section = Callable[[bool, int], tuple[list[Row], dict[str, Any]]]
SECTIONS: dict[str, Section] = {
    "taihulight": taihulight,
    "ingest": ingest,
}


def main() -> int:
    """Runs the sections, prints their tables, adds a line to the history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short runs: whether it works, not what it reaches")
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS, *OTHERS], default=[*SECTIONS, *OTHERS])
    parser.add_argument("--rows-per-s", type=int, default=ROWS_PER_S, help="of ops, in an ordinary hour (taihulight)")
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        folder, name, rows_per_s, seconds = json.loads(options.make)
        make_machine(Path(folder), name, rows_per_s, seconds)
        return 0
    table = Table("figure", "here", "wanted", title="one server for a whole machine", title_justify="left")
    figures: dict[str, Any] = {}
    for name in options.only:
        if name in SECTIONS:
            rows, figures[name] = SECTIONS[name](options.quick, options.rows_per_s)
            for row in rows:
                table.add_row(*row)
    if figures:
        Console().print(table)
        if not options.quick and not options.no_history:
            append("monitoring", figures)
    failed = 0
    for name in options.only:
        if name in OTHERS:
            command = [sys.executable, str(HERE / OTHERS[name][0]), *OTHERS[name][1:]]
            more = [f for f, on in (("--quick", options.quick), ("--no-history", options.no_history)) if on]
            failed |= subprocess.run([*command, *more], check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
