"""A play sent to a server as it happens: what the machine's agents would send, second by second. All of it simulated.

Not here: files of the same (`wire_bodies`), loads as fast as a server takes them (`steady_load`, benchmarks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa

from fairlead import __version__
from fairlead.core.errors import NoAnswerError, ServerError
from fairlead.kit.testing.machine import wire_bodies
from fairlead.kit.testing.machine.play import Play
from fairlead.see.agent.connection import Line, SendError, Token

NS = 1_000_000_000
AGAIN = (429, 503, 507)
"""The server has no room or no time: later."""
MOST_TRIES = 30
_MOST_BYTES = 32 << 20
_LONGEST_WAIT_S = 10.0


@dataclass(frozen=True)
class IntervalSummary:
    """What one interval came to: seconds of the play that are sent, rows and jobs that run, as of then."""

    to_s: int
    rows: int
    bytes: int
    running: int


def send_live_play(
    play: Play,
    line: Line,
    *,
    every_s: int,
    now_ns: Callable[[], int],
    sleep_s: Callable[[float], None],
    from_s: int = 0,
    heard: Callable[[str, int], bool] = lambda _node, _at_s: True,
    besides: Callable[[int, int], Mapping[str, pa.Table]] = lambda _from_s, _to_s: {},
) -> Iterator[IntervalSummary]:
    """Send interval after interval from `from_s` on, each when it is over by `now_ns`: what lies in the past goes at
    once. `heard`: whether a node's agent says anything at that second. `besides`: tables of an interval that a feed of
    the site sends besides the play's own.

    Raises NoAnswerError when the server has not answered for a while, ServerError when it refuses.
    """
    for start in range(from_s, play.seconds, every_s):
        stop = min(start + every_s, play.seconds)
        over_ns = play.origin_ns + stop * NS
        while (early_ns := over_ns - now_ns()) > 0:
            sleep_s(min(early_ns / NS, 1.0))
        rows = size = 0
        held: list[bytes] = []
        for body in wire_bodies.build_wire_bodies(play, every_s, start, stop):
            if not heard(body.node, start):
                continue
            held.append(body.data)
            rows, size = rows + body.rows, size + len(body.data)
            if sum(map(len, held)) > _MOST_BYTES:
                _posted(line, b"".join(held), sleep_s)
                held.clear()
        for name, table in besides(start, stop).items():
            held.append(wire_bodies.encode_wire_feed_body(play, name, table, start))
            rows, size = rows + table.num_rows, size + len(held[-1])
        if held:
            _posted(line, b"".join(held), sleep_s)
        running = sum(1 for job in play.course.jobs if job.start_s <= stop and not job.end_s <= stop)
        yield IntervalSummary(stop, rows, size, running)


def connect_live_line(server: str, token: str, ca: str, wall_ns: Callable[[], int]) -> Line:
    """A connection to a server, as an agent's."""
    return Line(server, Token(token), __version__, ca=ca, wall=wall_ns)


def _posted(line: Line, data: bytes, sleep_s: Callable[[float], None]) -> None:
    said = ""
    for tries in range(MOST_TRIES):
        wait_s = min(0.5 * 2**tries, _LONGEST_WAIT_S)
        try:
            answer = line.post([BytesIO(data)], len(data))
        except SendError as fault:
            said = str(fault)
        else:
            if answer.status == 200:
                return
            said = f"{line.server} answers {answer.status}: {answer.said}"
            if answer.status not in AGAIN:
                raise ServerError(said, remedy="give it a token for agents, as `fairlead up` makes one: agent.token")
            wait_s = min(answer.retry_after_s or wait_s, _LONGEST_WAIT_S)
        sleep_s(wait_s)
    raise NoAnswerError(said, remedy="is `fairlead up` running there?")
