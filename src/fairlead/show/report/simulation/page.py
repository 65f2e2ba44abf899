"""The page of simulated experiments: conclusions first, then every picture. Holds no script and fetches nothing.

Made of the answer that `--json` prints. Not here: the pictures (`pictures`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.decide.sim.experiments.conclusions import Conclusion
from fairlead.decide.sim.experiments.papers import PaperReport as ToldPaper
from fairlead.decide.sim.experiments.results import ExperimentResult as ToldExperiment
from fairlead.decide.sim.experiments.results import SimulationAnswer
from fairlead.show.report.diagnosis import parts
from fairlead.show.report.diagnosis.parts import Cell, box, said

WORD = {"pass": "ok", "fail": "high", "unknown": "info"}
PLAIN = (
    "Everything on this page is simulated. Lines are means over sets of applications, bands run from the 10th to the"
)
PLAIN += " 90th percentile of sets; load is load(π_sys) of the sets of a point."


def simulated_page(title: str, answer: SimulationAnswer, pictures: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The page of some experiments. `pictures`: of each experiment headings and `<svg>` texts, in order."""
    held = sum(one.verdict == "pass" for one in answer.conclusions)
    word = f"{held} of {len(answer.conclusions)} as published" if answer.conclusions else "simulated"
    body = parts.head(word, "info", title, [PLAIN, _seeds(answer.experiments)])
    body += box("Conclusions as found", _conclusions(answer.conclusions))
    for one, drawn in zip(answer.experiments, pictures, strict=True):
        number = f"Figure {one.figure}: " if one.figure is not None else ""
        window = " (the study's own window)" if one.window == "study" else ""
        facts = [one.note, f"seed {one.seed}, {one.sets:,} set{'s' * (one.sets != 1)} a point", one.source]
        inner = f'<p class="quiet">{said(" · ".join(fact for fact in facts if fact))}</p>'
        body += box(
            f"{number}{one.title or one.name}{window}",
            inner + "".join((f"<h3>{said(head)}</h3>" if head else "") + _picture(text) for head, text in drawn),
        )
    return parts.page(title, body)


def _picture(svg: str) -> str:
    """Wide ones scroll on a narrow screen: their text stays legible."""
    return f'<div class="picture wide">{svg}</div>'


def paper_page(answer: ToldPaper) -> str:
    """The page of another paper's experiment: its figures beside ours."""
    body = parts.head("simulated", "info", answer.paper, [answer.source])
    rows: list[list[Cell]] = []
    for line in answer.lines:
        near = f"{line.published:,.4g} {line.unit}" if line.published is not None else line.wanted
        verdict = "" if line.held is None else "pass" if line.held else "fail"
        value = "—" if line.value is None else f"{line.value:,.4g} {line.unit}"
        rows.append([said(line.setting), said(line.measure), said(value), said(near), said(verdict), said(line.note)])
    table = parts.table(["setting", "measure", ">simulated", ">published", "", "note"], rows)
    body += box("Simulated and published", table)
    body += box("Notes", parts.listed(answer.notes))
    return parts.page(answer.paper, body)


def _seeds(experiments: Sequence[ToldExperiment]) -> str:
    seeds = sorted({one.seed for one in experiments})
    return f"seed {', '.join(map(str, seeds))}" if seeds else ""


def _conclusions(rows: Sequence[Conclusion]) -> str:
    cells: list[list[Cell]] = [
        [
            said(one.says),
            said(one.applications),
            said(one.window),
            f'<span class="verdict-word word-{WORD[one.verdict]}">{said(one.verdict)}</span>',
            said(one.found),
            said(", ".join(map(str, one.figures))),
        ]
        for one in rows
    ]
    return parts.table(["conclusion", ">K", "window", "", "found", "figure"], cells)
