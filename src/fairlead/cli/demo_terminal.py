"""What `fairlead demo` prints: each job layer by layer, the verdicts with their evidence, what had been injected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fairlead.core.model.unit_formats import format_bytes, format_count, format_duration, format_percent

if TYPE_CHECKING:
    from fairlead.kit.demo.play import Outcome

_Row = tuple[str, str, str, str, str, str]


def show_demo_in_terminal(outcome: Outcome) -> None:
    """Prints it to stdout."""
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.piped_console import PipedConsole

    console = PipedConsole(highlight=False, soft_wrap=True, width=100)
    for path in outcome.paths:
        job = path["job_id"]
        saw = outcome.saw.get(job)
        console.print(Text(f"job {job}", style="bold"), Text(f" {saw['about']}" if saw else ""))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        for number, name in enumerate(("layer", "requests", "bytes", "waited", "busy", "longest p90")):
            table.add_column(name, justify="left" if number == 0 else "right", header_style="dim", no_wrap=True)
        for row in _layers(path, saw):
            table.add_row(*row)
        console.print(table)
        for text in (saw or {}).get("differences", []):
            console.print(f"  {text}")
    _targets(console, outcome.charts)
    console.print()
    _verdicts(console, outcome)


def _layers(path: dict[str, Any], saw: dict[str, Any] | None) -> Iterator[_Row]:
    if saw:
        carried = saw["bytes_read"] + saw["bytes_written"]
        yield (
            "application itself",
            format_count(saw["operations"]),
            format_bytes(carried),
            "",
            format_duration(saw["io_s"]),
            "",
        )
    client = path["client"]
    if client:
        carried = client["bytes_read"] + client["bytes_written"]
        yield (
            "client",
            format_count(client["operations"]),
            format_bytes(carried),
            "",
            format_duration(client["busy_s"]),
            "",
        )
    for one in path["forwarders"]:
        yield (
            f"forwarder {one['name']}",
            format_count(one["requests"]),
            format_bytes(one["bytes"]),
            format_duration(one["wait_s"]),
            format_duration(one["service_s"]),
            format_duration(one["worst_wait_p90_s"]),
        )
    for one in path["targets"]:
        yield (
            f"target {one['name']}",
            format_count(one["requests"]),
            format_bytes(one["bytes"]),
            "",
            format_duration(one["service_s"]),
            "",
        )


def _targets(console: Any, charts: dict[str, Any]) -> None:
    """Each target: bytes of all jobs and its device time a MiB, in the median second and the worst."""
    parts = []
    for one in charts["targets"]:
        known = sorted(value for value in one["per_mib_s"] if value is not None)
        if known:
            usual, worst = format_duration(known[len(known) // 2]), format_duration(known[-1])
            parts.append(f"  {one['name']}  {format_bytes(sum(one['bytes']))}, {usual} a MiB, at worst {worst}")
    if parts:
        console.print("targets, all jobs together: bytes, device time of one MiB in the median second and in the worst")
        console.print("\n".join(parts))


def _second(at_ns: int, outcome: Outcome) -> int:
    """A time as the page counts it: from the first record on."""
    return round((at_ns - (outcome.charts.get("start_ns") or 0)) / 1e9)


def _verdicts(console: Any, outcome: Outcome) -> None:
    from rich.text import Text

    judgement = outcome.judgement
    for one in judgement["verdicts"]:
        sure = f"(second {_second(one['from_ns'], outcome)} to {_second(one['to_ns'], outcome)}, "
        sure += f"confidence {format_percent(one['confidence'])})"
        console.print(Text(one["title"], style="bold red"), Text(sure))
        for text in one["evidence"]:
            console.print(f"  - {text}")
        for job, lost in one["lost_s"].items():
            cost = one["cost_s"].get(job)
            run = f", about {format_duration(cost)} of its run" if cost is not None else ""
            console.print(f"  - it cost job {job or '?'} {format_duration(lost)} over all its requests{run}")
        for text in one["advice"]:
            console.print(f"  → {text}")
    if judgement["nobody"]:
        console.print(Text("No cause was found.", style="bold"), judgement["nobody"])
    console.print()
    console.print(Text("injected:", style="bold"), outcome.told)
    words = {True: "correct", False: "WRONG"}
    console.print(f"The diagnosis is {words[outcome.all_right]}.")
    if outcome.lost_without_fuse:
        console.print(outcome.lost_without_fuse)
