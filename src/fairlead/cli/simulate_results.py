"""What `fairlead simulate` prints: conclusions, lines over the load as tables, a paper's figures beside ours.

Not here: asking for it (`simulate`), pictures (`fairlead simulate plot`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.decide.sim.experiments.conclusions import Conclusion
    from fairlead.decide.sim.experiments.papers import PaperReport as PaperTold
    from fairlead.decide.sim.experiments.results import FigureData, Panel, SimulationAnswer

VERDICT_STYLE = {"pass": "green", "fail": "red", "unknown": "yellow"}
MANY_LINES = 8
"""No more stand beside each other in a table."""
LESS_IS_BETTER = (
    "slowdown_mean",
    "slowdown_max",
    "slowdown_p10",
    "slowdown_p50",
    "slowdown_p90",
    "contention_mean",
    "idle",
    "core_hours_lost",
    "spread",
    "stretch_mean",
)
FEW_SETS = 100
"""Below so many sets a point a conclusion is worth little, and it says so."""


def print_simulate_results(found: SimulationAnswer) -> None:
    """Conclusions where there are any, else every picture as a table."""
    from rich.text import Text

    from fairlead.cli.pictures import build_picture_console
    from fairlead.core.safe_text import escape_text

    console = build_picture_console()
    if found.conclusions:
        for part in _build_conclusions_table(found.conclusions, console.width):
            console.print(part)
        return
    for one in found.experiments:
        head = escape_text(f"{one.name}: {one.title}" if one.title else one.name)
        console.print(Text(head, style="bold"))
        sets = f"{one.sets:,} set{'s' * (one.sets != 1)}"
        facts = f"simulated; seed {one.seed}, {sets} per point, {one.window} window"
        console.print(Text(f"{facts}\n{escape_text(one.note)}".strip(), style="dim"))
        for picture in one.pictures:
            for part in _picture(picture):
                console.print(part)


def _build_conclusions_table(rows: Sequence[Conclusion], width: int) -> list[RenderableType]:
    """Pass or fail as found, a line a conclusion and number of applications."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table

    many = len({one.window for one in rows}) > 1
    columns = [
        Column("conclusion", lambda r: r.says, longest=40),
        Column("K", lambda r: str(r.applications), right=True),
        *([Column("window", lambda r: r.window)] if many else []),
        Column("", lambda r: Text(r.verdict, style=VERDICT_STYLE[r.verdict])),
        Column("figure", lambda r: ", ".join(map(str, r.figures)), right=True, spare=2),
        Column("found", lambda r: r.found, longest=160, wraps=True),
    ]
    counted = {verdict: sum(one.verdict == verdict for one in rows) for verdict in VERDICT_STYLE}
    fewest = min(one.sets for one in rows)
    text = f"{counted['pass']} of {len(rows)} as the study says, {counted['fail']} not"
    text += f", {counted['unknown']} undecided" if counted["unknown"] else ""
    few = (
        f"\nsome are based on only {fewest} sets per point: {FEW_SETS} or more are needed to decide"
        if fewest < FEW_SETS
        else ""
    )
    first = Text("Conclusions of the scheduling study, as found by simulation", style="bold")
    return [
        first,
        fit_answer_table(columns, rows, width),
        Text(text),
        *([Text(few.strip(), style="yellow")] if few else []),
    ]


def _picture(picture: FigureData) -> list[RenderableType]:
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"\n{picture.title}", style="bold")]
    if picture.kind == "best-counts":
        return [*parts, _counts(picture.counts)]
    for panel in picture.panels:
        parts += [Text(f"{panel.applications:,} {panel.of}, {picture.axis}", style="dim"), _panel(panel)]
    return parts


def _counts(counts: Mapping[str, Mapping[int, int]]) -> RenderableType:
    from rich.table import Table

    names = list(next(iter(counts.values()), {}))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("best at")
    for n in names:
        table.add_column("direct" if n == 0 else str(n), justify="right")
    for name, row in counts.items():
        table.add_row(name, *(str(row[n]) for n in names))
    return table


def _panel(panel: Panel) -> RenderableType:
    from rich.table import Table

    from fairlead.core.model import unit_formats

    joint = [place for place, line in enumerate(panel.lines) if "+" not in line.policy]
    if 0 < len(joint) < len(panel.lines) > MANY_LINES and panel.lines[0].measure in LESS_IS_BETTER:
        return _beside_the_best(panel, joint)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("load", justify="right")
    for name in panel.labels:
        table.add_column(name, justify="right", overflow="fold")
    for place in range(max((len(line.points) for line in panel.lines), default=0)):
        points = [line.points[place] if place < len(line.points) else None for line in panel.lines]
        load = next((p.load_sys for p in points if p is not None), None)
        cells = [unit_formats.ABSENT if p is None or p.mean is None else _figure(p.mean) for p in points]
        table.add_row(unit_formats.ABSENT if load is None else f"{load:.2f}", *cells)
    return table


def _beside_the_best(panel: Panel, joint: Sequence[int]) -> RenderableType:
    """Of more lines than a terminal holds: those of joint policies beside the best of all pairs at each point."""
    from rich.table import Table
    from rich.text import Text

    from fairlead.core.model import unit_formats

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("load", justify="right")
    for place in joint:
        table.add_column(panel.labels[place], justify="right")
        table.add_column("", justify="right")
    table.add_column("best pair", justify="right", no_wrap=True)
    table.add_column(f"which of {len(panel.lines) - len(joint)}")
    pairs = [place for place in range(len(panel.lines)) if place not in joint]
    for at in range(min(len(line.points) for line in panel.lines)):
        points = [line.points[at] for line in panel.lines]
        load = points[0].load_sys
        known = [(mean, place) for place in pairs if (mean := points[place].mean) is not None]
        best = min(known, default=None)
        cells: list[str | Text] = [unit_formats.ABSENT if load is None else f"{load:.2f}"]
        for place in joint:
            mean = points[place].mean
            change = None if mean is None or best is None or not best[0] else mean / best[0] - 1
            cells.append(unit_formats.ABSENT if mean is None else _figure(mean))
            style = "" if change is None else "green" if change <= 0 else "red"
            cells.append(Text("" if change is None else f"{change:+.0%}", style=style))
        cells += [unit_formats.ABSENT, ""] if best is None else [_figure(best[0]), panel.labels[best[1]]]
        table.add_row(*cells)
    return table


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def print_simulate_paper_results(told: PaperTold) -> None:
    """A paper's figures beside ours."""
    from rich.table import Table
    from rich.text import Text

    from fairlead.cli.pictures import build_picture_console
    from fairlead.core.safe_text import escape_text

    console = build_picture_console()
    console.print(Text(told.paper, style="bold"))
    console.print(Text(f"{told.source}; simulated", style="dim"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, said in (("setting", [x.setting for x in told.lines]), ("measure", [x.measure for x in told.lines])):
        table.add_column(name, overflow="fold", min_width=_longest_word(said))
    table.add_column("simulated", justify="right", no_wrap=True)
    rows: list[list[Text]] = []
    published = any(line.wanted or line.published is not None for line in told.lines)
    if published:
        table.add_column("published", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    for line in told.lines:
        near = f" ±{line.within:.0%}" if line.within else ""
        beside = line.wanted or ("" if line.published is None else _valued(line.published, line.unit) + near)
        word = "" if line.held is None else "pass" if line.held else "fail"
        cells = [line.setting, line.measure, _valued(line.value, line.unit), *([beside] if published else [])]
        texts = [Text(escape_text(cell)) for cell in cells]
        texts += [Text(word, style=VERDICT_STYLE.get(word, ""))] if published else []
        table.add_row(*texts)
        rows.append(texts)
    if console.measure(table, options=console.options.update(width=10_000)).minimum <= console.width:
        console.print(table)
    else:
        for row in rows:
            console.print(Text(", ").join(cell for cell in row if cell))
    for line in told.lines:
        if line.note:
            console.print(Text(escape_text(f"{line.setting}, {line.measure}: {line.note}"), style="dim"))
    asked = [line.held for line in told.lines if line.held is not None]
    if asked:
        console.print(Text(f"{sum(asked)} of {len(asked)} as published or wanted"))
    for note in told.notes:
        console.print(Text(escape_text(note), style="dim"))


def _longest_word(texts: Sequence[str]) -> int:
    """Cells a column needs so that no word breaks."""
    return max((len(word) for text in texts for word in text.split()), default=1)


def _valued(value: float | None, unit: str) -> str:
    from fairlead.core.model import unit_formats

    if value is None:
        return unit_formats.ABSENT
    return f"{value:,.0f} {unit}".strip() if abs(value) >= 1000 else f"{value:.4g} {unit}".strip()


def list_simulate_results(results: Sequence[Mapping[str, Any]]) -> None:
    """Experiments by name, how policies are called, results in the lake."""
    from rich.text import Text

    from fairlead.cli.answer_tables import Column, fit_answer_table
    from fairlead.cli.pictures import build_picture_console
    from fairlead.decide.registered_policies import ALLOCATIONS, PLACINGS, list_registered_policies
    from fairlead.decide.sim.experiments.papers import OURS, PAPERS, STUDY
    from fairlead.decide.sim.experiments.scheduling_study import build_joint_study, list_study_figures

    console = build_picture_console()
    rows = [(STUDY, "all figures and the conclusions (Bandet, Boito, Pallez 2024)")]
    rows += [(f"{STUDY} --figure {one.figure}", one.title) for one in list_study_figures()]
    rows += [(OURS, f"{build_joint_study().title}: slowdown and idle time over the load")]
    rows += [(name, f"{paper.summary} ({paper.source})") for name, paper in PAPERS.items()]
    columns = [
        Column("experiment", lambda r: r[0], longest=40),
        Column("what it shows", lambda r: r[1], longest=120, wraps=True),
    ]
    console.print(fit_answer_table(columns, rows, console.width))
    joint = [name for name in list_registered_policies() if "+" not in name]
    console.print(
        Text("\nPolicies: ALLOCATION+PLACEMENT" + (f", or {', '.join(joint)}" if joint else ""), style="bold")
    )
    console.print(f"allocations  {', '.join(ALLOCATIONS)}")
    console.print(f"placements   {', '.join(PLACINGS)}")
    if results:
        console.print(Text("\nResults", style="bold"))
        shown = [
            Column("name", lambda r: r["name"], longest=50),
            Column("seed", lambda r: str(r["seed"]), right=True),
            Column("sets", lambda r: "" if r["sets"] is None else str(r["sets"]), right=True),
        ]
        console.print(fit_answer_table(shown, results, console.width))
