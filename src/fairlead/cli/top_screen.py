"""What `fairlead top` shows: the last answer, which order, which lines; and a screen of it. Not here: keys, refreshing.

A failed look keeps the last answer on the screen and says what failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.text import Text

from fairlead.cli.answer_tables import (
    Column,
    fit_answer_table,
    format_answer_rate,
    format_answer_word,
    shorten_answer_program,
)
from fairlead.cli.ask import Asker
from fairlead.cli.pictures import META, READ, WRITE, draw_bar_picture
from fairlead.core.errors import FairleadError
from fairlead.core.model import unit_formats
from fairlead.core.safe_text import escape_text
from fairlead.explain.questions.answers import Answer, ComponentRow, Mds, Targets, Top, TopRow

ORDERS = {
    "jobs": ("bytes", "read", "write", "metadata"),
    "targets": ("load", "write", "read", "full", "name"),
    "mds": ("jobs", "clients", "operations", "servers"),
}
_HEAD_LINES = 4


class Board:
    """State of the screen. `look` asks; `turn`, `reorder`, `scroll` change what is shown."""

    def __init__(self, asker: Asker, by: str, last: str) -> None:
        self.by = by
        self.last = last
        self.order = 0
        self.first = 0
        self.answer: Answer | None = None
        self.trouble = ""
        self._asker = asker

    @property
    def ordered_by(self) -> str:
        """The order in force."""
        return ORDERS[self.by][self.order]

    def look(self) -> None:
        """Asks again. The first failure is raised, later ones are shown."""
        try:
            if self.by == "jobs":
                answer = self._asker.ask("top", "jobs", last=self.last, metric=self.ordered_by, limit=200)
            elif self.by == "targets":
                answer = self._asker.ask("targets", last=self.last)
            else:
                answer = self._asker.ask("mds", last=self.last, limit=200, points=10)
        except FairleadError as error:
            if self.answer is None:
                raise
            self.trouble = str(error).splitlines()[0]
            return
        self.answer, self.trouble = answer, ""

    def turn(self, by: str) -> None:
        """Shows something else."""
        if by != self.by:
            self.by, self.order, self.first = by, 0, 0

    def reorder(self) -> None:
        """The next order."""
        self.order = (self.order + 1) % len(ORDERS[self.by])
        self.first = 0

    def scroll(self, key: str, page: int) -> None:
        """Moves the first line shown."""
        step = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "home": -(10**9)}[key]
        self.first = max(0, min(self.first + step, max(0, len(self.list_rows()) - 1)))

    def list_rows(self) -> list[Any]:
        """The lines in order."""
        answer = self.answer
        if isinstance(answer, Top):
            return list(answer.rows)
        if isinstance(answer, Targets):
            return sorted(answer.targets, key=_target_key(self.ordered_by if self.by == "targets" else "load"))
        if isinstance(answer, Mds):
            of = {"jobs": answer.jobs, "clients": answer.clients, "operations": answer.ops, "servers": answer.servers}
            return list(of.get(self.ordered_by, answer.jobs))
        return []


def _target_key(order: str) -> Any:
    def key(row: ComponentRow) -> tuple[float, str]:
        if order == "name":
            return 0.0, row.id
        value = {"read": row.sums.read_bytes, "write": row.sums.write_bytes, "full": row.fullness}.get(
            order, row.sums.bytes
        )
        return -float(value or 0), row.id

    return key


def draw_top_screen(board: Board, width: int, height: int) -> RenderableType:
    """A full screen."""
    room = max(1, height - _HEAD_LINES - 1)
    keys = Text("j jobs  o targets  m metadata  s order  ↑↓ scroll  q end", style="dim", no_wrap=True, overflow="crop")
    body = _body(board, width, board.list_rows()[board.first : board.first + room])
    return Group(*_head(board), body, keys) if height > 6 else Group(*_head(board))


def render_top_screen_once(board: Board, width: int, limit: int) -> RenderableType:
    """The same once, for a pipe."""
    return Group(*_head(board), _body(board, width, board.list_rows()[:limit]))


def _head(board: Board) -> list[RenderableType]:
    answer = cast("Any", board.answer)
    seconds = _seconds(board)
    name = {"jobs": "jobs", "targets": "storage targets", "mds": "metadata"}[board.by]
    said = Text.assemble(
        (f"fairlead top: {name}", "bold"),
        f" by {board.ordered_by}, {escape_text(board.last)} to ",
        unit_formats.format_time(answer.to_ns),
        no_wrap=True,
        overflow="ellipsis",
    )
    if isinstance(answer, Top):
        sums = answer.total
        read, write = (format_answer_rate(size, seconds) for size in (sums.read_bytes, sums.write_bytes))
        load = f"{answer.count:,} jobs: read {read}, write {write}"
        load += f", {_per_s(sums.metadata_ops, seconds)} metadata ops/s"
    elif isinstance(answer, Targets):
        known = [row.sums.bytes for row in answer.targets if row.sums.bytes is not None]
        rate = format_answer_rate(sum(known), seconds) if known else unit_formats.ABSENT
        load = f"{len(answer.targets):,} targets: {rate}"
        load += f", {answer.idle} idle" + (f", busiest {answer.imbalance:.2f} × mean" if answer.imbalance else "")
    else:
        mds = cast("Mds", answer)
        load = f"{unit_formats.format_count(mds.per_s and round(mds.per_s, 1))} metadata ops/s"
    trouble = Text(escape_text(board.trouble), style="bold red", no_wrap=True, overflow="ellipsis")
    return [said, Text(load, no_wrap=True, overflow="ellipsis"), trouble if board.trouble else Text("")]


def _seconds(board: Board) -> float:
    answer = cast("Any", board.answer)
    return float(max(1, answer.to_ns - answer.from_ns)) / 1e9


def _per_s(value: int | None, seconds: float) -> str:
    return unit_formats.format_count(None if value is None else round(value / seconds, 1))


def _body(board: Board, width: int, rows: Sequence[Any]) -> RenderableType:
    seconds = _seconds(board)
    if not rows:
        return Text("no data in this time", style="yellow")
    if isinstance(board.answer, Top):
        return fit_answer_table(_job_columns(seconds, width), rows, width)
    if isinstance(board.answer, Targets):
        most = max((row.sums.bytes or 0 for row in board.answer.targets), default=0)
        return fit_answer_table(_target_columns(seconds, most), rows, width)
    heading = {"jobs": "job", "clients": "client", "operations": "operation"}.get(board.ordered_by, "server")
    owner = [
        Column("user", lambda r: format_answer_word(r.user), spare=1, longest=14),
        Column("program", lambda r: shorten_answer_program(r.program), spare=2, longest=20),
    ]
    columns = [
        Column(heading, lambda r: r.name, longest=32),
        *(owner if heading == "job" else []),
        Column("ops/s", lambda r: unit_formats.format_count(round(r.per_s, 1)), right=True),
        Column("share", lambda r: unit_formats.format_percent(r.share), right=True),
        Column("", lambda r: draw_bar_picture(r.share, 30 if width >= 100 else 14, META), spare=3),
    ]
    return fit_answer_table(columns, rows, width)


def _job_columns(seconds: float, width: int) -> list[Column]:
    def state(row: TopRow) -> Text:
        return Text("running", style="green") if row.running else Text("" if row.running is None else "ended")

    return [
        Column("job", lambda r: r.name, longest=20),
        Column("user", lambda r: format_answer_word(r.user), spare=1, longest=14),
        Column("program", lambda r: shorten_answer_program(r.program), spare=2, longest=20),
        Column("state", state, spare=6),
        Column("read", lambda r: format_answer_rate(r.sums.read_bytes, seconds), right=True),
        Column("write", lambda r: format_answer_rate(r.sums.write_bytes, seconds), right=True),
        Column("metadata/s", lambda r: _per_s(r.sums.metadata_ops, seconds), right=True, spare=3),
        Column("share", lambda r: unit_formats.format_percent(r.share), right=True, spare=2),
        Column("", lambda r: draw_bar_picture(r.share, 30 if width >= 120 else 14, READ), spare=4),
        Column("counted at", lambda r: format_answer_word(r.layer), spare=7),
    ]


def _target_columns(seconds: float, most: int) -> list[Column]:
    return [
        Column("target", lambda r: r.id, longest=28),
        Column("read", lambda r: format_answer_rate(r.sums.read_bytes, seconds), right=True),
        Column("write", lambda r: format_answer_rate(r.sums.write_bytes, seconds), right=True),
        Column("load", lambda r: draw_bar_picture((r.sums.bytes or 0) / most if most else 0.0, 20, WRITE), spare=3),
        Column("peak", lambda r: unit_formats.format_bandwidth(r.peak_bytes_per_s), right=True, spare=4),
        Column("used", lambda r: unit_formats.format_bytes(r.used_bytes), right=True, spare=5),
        Column("full", lambda r: unit_formats.format_percent(r.fullness), right=True, spare=1),
    ]
