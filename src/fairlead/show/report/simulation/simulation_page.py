"""The page of simulated experiments: conclusions first, then every picture. Holds no script and fetches nothing.

Made of the answer that `--json` prints. Not here: the pictures (`pictures`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.decide.sim.experiments.conclusions import Conclusion
from fairlead.decide.sim.experiments.papers import PaperReport as ToldPaper
from fairlead.decide.sim.experiments.results import ExperimentResult as ToldExperiment
from fairlead.decide.sim.experiments.results import SimulationAnswer
from fairlead.show.report.diagnosis import html_parts
from fairlead.show.report.diagnosis.html_parts import Cell, build_html_box, escape_html_text

WORD = {"pass": "ok", "fail": "high", "unknown": "info"}
PLAIN = (
    "Everything on this page is simulated. Lines are means over sets of applications, bands run from the 10th to the"
)
PLAIN += " 90th percentile of sets; load is load(π_sys) of the sets of a point."


def build_simulation_page(title: str, answer: SimulationAnswer, pictures: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The page of some experiments. `pictures`: of each experiment headings and `<svg>` texts, in order."""
    held = sum(one.verdict == "pass" for one in answer.conclusions)
    word = f"{held} of {len(answer.conclusions)} as published" if answer.conclusions else "simulated"
    body = html_parts.build_html_head(word, "info", title, [PLAIN, _seeds(answer.experiments)])
    body += build_html_box("Conclusions as found", _conclusions(answer.conclusions))
    for one, drawn in zip(answer.experiments, pictures, strict=True):
        number = f"Figure {one.figure}: " if one.figure is not None else ""
        window = " (the study's own window)" if one.window == "study" else ""
        facts = [one.note, f"seed {one.seed}, {one.sets:,} set{'s' * (one.sets != 1)} a point", one.source]
        inner = f'<p class="quiet">{escape_html_text(" · ".join(fact for fact in facts if fact))}</p>'
        body += build_html_box(
            f"{number}{one.title or one.name}{window}",
            inner
            + "".join((f"<h3>{escape_html_text(head)}</h3>" if head else "") + _picture(text) for head, text in drawn),
        )
    return html_parts.build_html_page(title, body)


def _picture(svg: str) -> str:
    """Wide ones scroll on a narrow screen: their text stays legible."""
    return f'<div class="picture wide">{svg}</div>'


def build_paper_simulation_page(answer: ToldPaper) -> str:
    """The page of another paper's experiment: its figures beside ours."""
    body = html_parts.build_html_head("simulated", "info", answer.paper, [answer.source])
    rows: list[list[Cell]] = []
    for line in answer.lines:
        near = f"{line.published:,.4g} {line.unit}" if line.published is not None else line.wanted
        verdict = "" if line.held is None else "pass" if line.held else "fail"
        value = "—" if line.value is None else f"{line.value:,.4g} {line.unit}"
        rows.append(
            [
                escape_html_text(line.setting),
                escape_html_text(line.measure),
                escape_html_text(value),
                escape_html_text(near),
                escape_html_text(verdict),
                escape_html_text(line.note),
            ]
        )
    table = html_parts.build_html_table(["setting", "measure", ">simulated", ">published", "", "note"], rows)
    body += build_html_box("Simulated and published", table)
    body += build_html_box("Notes", html_parts.build_html_list(answer.notes))
    return html_parts.build_html_page(answer.paper, body)


def _seeds(experiments: Sequence[ToldExperiment]) -> str:
    seeds = sorted({one.seed for one in experiments})
    return f"seed {', '.join(map(str, seeds))}" if seeds else ""


def _conclusions(rows: Sequence[Conclusion]) -> str:
    cells: list[list[Cell]] = [
        [
            escape_html_text(one.says),
            escape_html_text(one.applications),
            escape_html_text(one.window),
            f'<span class="verdict-word word-{WORD[one.verdict]}">{escape_html_text(one.verdict)}</span>',
            escape_html_text(one.found),
            escape_html_text(", ".join(map(str, one.figures))),
        ]
        for one in rows
    ]
    return html_parts.build_html_table(["conclusion", ">K", "window", "", "found", "figure"], cells)
