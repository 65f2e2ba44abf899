"""`python -m fairlead.kit.testing.machine`: a made machine's records as files, or sent to a server as they happen.

Everything it makes is simulated.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from fairlead.core import clock
from fairlead.core.errors import FairleadError, UsageError
from fairlead.decide.sim.faults import Fault
from fairlead.kit.testing import machine
from fairlead.kit.testing.machine import Play, live_play, lustre_tree, scenes, truth_labels, wire_bodies

PLAYS = {
    "small": machine.play_small_machine,
    "two_layer": machine.play_two_layer_machine,
    "taihulight": machine.play_taihulight_machine,
}
SCENES = {
    "bad_day": scenes.build_bad_day_scene,
    "co_run": scenes.build_co_run_scene,
    "slow_target": scenes.build_slow_target_scene,
}
FORMS = ("batches", "parquet", "tree", "truth")


def _parse_fault(text: str) -> Fault:
    """`target:3:60:120:0.1` or `target:3:60:120:0.1:fail_slow`: component, number, from, to (s), factor, kind."""
    parts = text.split(":")
    try:
        component, number, begin, end, factor, kind = (*parts, "degraded") if len(parts) == 5 else parts
        return Fault(
            component=component,
            number=int(number),
            from_s=float(begin),
            to_s=float(end),
            factor=float(factor),
            kind=kind,
        )
    except ValueError as fault:
        raise UsageError(f"no fault: {text!r}", remedy="COMPONENT:NUMBER:FROM:TO:FACTOR[:KIND]") from fault


def _write_play(play: Play, folder: Path, forms: list[str], every_s: int) -> dict[str, object]:
    """The play's records under `folder` in each of the forms; what was written, in numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, object] = {
        "simulated": True,
        "machine": play.machine.name,
        "seed": play.seed,
        "seconds": play.seconds,
    }
    told["jobs"] = len(play.course.jobs)
    if "batches" in forms:
        manifest = wire_bodies.write_wire_bodies(play, folder / "posts", every_s)
        told["batches"] = {key: manifest[key] for key in ("rows", "ops_rows", "operations", "bytes")}
    if "parquet" in forms:
        tables = play.build_tables()
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")
        told["tables"] = {name: table.num_rows for name, table in tables.items()}
    if "tree" in forms:
        lustre_tree.MachineTree(play, folder / "hosts").advance(play.seconds)
    if "truth" in forms:
        labels = truth_labels.build_truth_labels(play)
        truth_labels.write_truth_labels(labels, folder / "truth.json")
        told["labels"] = len(labels)
    return told


def _send_play(play: Play, server: str, token: Path, ca: str, past_s: int, every_s: int) -> None:
    """The play to a server as it happens, `past_s` of it as if they had just gone by; a line on stderr a minute."""
    origin_ns = (clock.now_ns() // live_play.NS - past_s) * live_play.NS
    line = live_play.connect_live_line(server, str(token), ca, clock.now_ns)
    told_s = 0
    for told in live_play.send_live_play(
        replace(play, origin_ns=origin_ns), line, every_s=every_s, now_ns=clock.now_ns, sleep_s=clock.sleep_s
    ):
        if told.to_s - told_s >= past_s or told.to_s - told_s >= 60 or told.to_s == play.seconds:
            told_s = told.to_s
            sys.stderr.write(f"simulated: {told.to_s} of {play.seconds} s sent, {told.running} jobs run\n")


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or the error's."""
    parser = argparse.ArgumentParser(prog="python -m fairlead.kit.testing.machine", description=__doc__)
    parser.add_argument("--machine", choices=PLAYS, default="small")
    parser.add_argument("--scene", choices=SCENES, help="a few jobs put together by hand, instead of drawn ones")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--hours", type=float, default=1.0, help="of drawn jobs (default: 1)")
    parser.add_argument("--out", type=Path, help="folder the records go to")
    parser.add_argument("--form", action="append", choices=FORMS, help="what to write (default: batches and truth)")
    parser.add_argument("--every", type=int, default=10, metavar="S", help="seconds of records in one body")
    parser.add_argument("--fault", action="append", default=[], metavar="COMPONENT:NUMBER:FROM:TO:FACTOR[:KIND]")
    parser.add_argument("--live", action="store_true", help="send to --server as it happens, until --hours are over")
    parser.add_argument("--server", metavar="URL", help="a collector, as http://127.0.0.1:8571")
    parser.add_argument("--token", type=Path, metavar="FILE", help="token of an agent of any node")
    parser.add_argument("--ca", default="", metavar="FILE", help="authority (PEM) of the server's certificate")
    parser.add_argument("--past", type=int, default=300, metavar="S", help="seconds that lie in the past already")
    given = parser.parse_args(arguments)
    if given.live != (given.out is None) or (given.live and not (given.server and given.token)):
        parser.error("--out FOLDER writes files; --live --server URL --token FILE sends")
    try:
        faults = [_parse_fault(text) for text in given.fault]
        if given.scene:
            play = SCENES[given.scene](given.seed)
        else:
            play = PLAYS[given.machine](given.seed, max(round(given.hours * 3600), 1), faults=faults)
        if given.live:
            _send_play(play, given.server, given.token, given.ca, given.past, min(given.every, 5))
            return 0
        told = _write_play(play, given.out, given.form or ["batches", "truth"], given.every)
    except KeyboardInterrupt:
        return 130
    except FairleadError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
