"""The agent's one loop: what is due is looked at, deltas are taken, files are written, health is told. One thread.

It never waits for a probe or the network: `step` does what there is to do and says when to come again. Times are given.
Not here: running probes (`probe_thread`), sending (`spool_sender`), signals and clocks (`run`).
"""

from typing import Callable, Dict, Optional, Sequence, Tuple

from fairlead.core.batches.encoding import Header
from fairlead.core.batches.spool import Spool
from fairlead.see.agent.deltas import IDLE_NS, Deltas, Shape, describe_delta_shape
from fairlead.see.agent.health import Cost, SenderHealth, Tally, build_agent_health_row
from fairlead.see.agent.probe_names import list_named_probes
from fairlead.see.agent.probe_thread import FAILING, MISSING, OK, Outcome, Runs
from fairlead.see.agent.row_buffers import Sheets
from fairlead.see.agent.schedule import SECOND_NS, Grid, Steps, align_schedule, find_schedule_phase
from fairlead.see.agent.settings import Settings
from fairlead.see.probes.base import Event, Probe, Reading

LOOK_AGAIN_NS = 300 * SECOND_NS
"""How often a probe that found nothing here looks again."""
MOST_WAITING = 1 << 20
"""Bytes of batches after which a file is written at once."""
_FIRST_HEALTH_NS = 2 * SECOND_NS
PUSH_NS = SECOND_NS
"""A push waits so long for probes that were started for it."""
SOON_NS = 2 * SECOND_NS
"""What servers counted by job is sent this soon: whoever judges a job that ended waits for it."""
SERVERS = ("target", "metadata")
"""Tables of what servers count."""
_MAX_SHAPES = 64
"""Kinds of readings followed for one probe."""


class WatchedProbe:
    """One probe and how it goes."""

    def __init__(self, name: str, probe: Probe, first_ns: int, asked_for: bool) -> None:
        self.name = name
        self.probe = probe
        self.grid = Grid(first_ns, int(probe.period_s * 1e9))
        self.tally = Tally()
        self.asked_for = asked_for
        """By name, not by `auto`: then its absence is told."""
        self.seen = False
        """Whether it ever found something here."""
        self.running = False
        self.looks = 0
        self.state = ""
        self.series: Dict[Shape, Deltas] = {}

    @property
    def period_ns(self) -> int:
        """Between two looks."""
        return int(self.probe.period_s * 1e9)


class Watch:
    """See the module. `told` are figures of the sending side, asked for when health is told."""

    def __init__(
        self,
        settings: Settings,
        probes: Sequence[Tuple[str, Probe]],
        crew: Runs,
        spool: Spool,
        *,
        mono_ns: int,
        wall_ns: int,
        told: Callable[[], SenderHealth],
        cost: Callable[[], Cost],
        wrote: Callable[[], None],
        pushed: Callable[[], None] = lambda: None,
    ) -> None:
        """`wrote` is called when a file was added to the spool, `pushed` when a job's end is being told; `cost` gives
        this process's memory and CPU time."""
        self.node = settings.node
        self._settings = settings
        self._crew = crew
        self._spool = spool
        self._told = told
        self._cost = cost
        self._wrote = wrote
        self._pushed = pushed
        self._steps = Steps()
        self._steps.look(mono_ns, wall_ns)
        self.sheets = Sheets(self.node, self._header)
        asked_for = list_named_probes(settings.probes)
        # The first look is a base, and taken at once.
        self.watched = [WatchedProbe(name, probe, mono_ns, name in asked_for) for name, probe in probes]
        self._quiet_ns = IDLE_NS if not settings.once else 0
        """After this time what did not change is told; at once when there are two looks only."""
        self._lively = True
        """Whether something other than idle rows waits."""
        self._ship_ns, self._idle_ns = int(settings.ship_s * 1e9), int(settings.idle_s * 1e9)
        first = align_schedule(mono_ns, wall_ns, self._ship_ns, find_schedule_phase(self.node, self._ship_ns))
        self._ship = Grid(first, self._ship_ns)
        self._push_ns: Optional[int] = None
        """A push is under way: until when it waits for probes."""
        self._soon_ns: Optional[int] = None
        """When what names jobs is sent, at the latest."""
        self._written_ns = mono_ns
        self._health_ns = int(settings.health_s * 1e9)
        self._health = Grid(mono_ns + min(_FIRST_HEALTH_NS, self._health_ns), self._health_ns)
        self._told_at_ns = mono_ns
        self._before = cost()
        self._lost_before = 0
        self._told_before = SenderHealth()
        self._first_told = False

    def _header(self, table: str, version: int, rows: int, first: Optional[int], last: Optional[int]) -> Header:
        return self._spool.build_header(table, version, rows, first_ns=first, last_ns=last)

    def step(self, mono_ns: int, wall_ns: int) -> int:
        """Does what is due; returns the monotonic time at which to come again, at the latest."""
        moved = self._steps.look(mono_ns, wall_ns)
        if moved:
            text = "the clock of {} was set {} by {:.3f} s".format(
                self.node, "forward" if moved > 0 else "back", abs(moved) / 1e9
            )
            self.record_event(wall_ns, "clock_step", text)
            self._realign(mono_ns, wall_ns)
        for outcome in self._crew.collect(mono_ns):
            self._take(outcome, mono_ns)
        for one in self.watched:
            if one.grid.is_due(mono_ns) and not one.running and one.name not in self._crew.stuck:
                one.grid.take_tick(mono_ns)
                one.running = True
                self._crew.start(one.name, one.probe)
                if len(one.series) and one.grid.missed:
                    one.tally.missed += one.grid.missed
                one.grid.missed = 0
        for outcome in self._crew.collect(mono_ns):
            self._take(outcome, mono_ns)
        if self._health.is_due(mono_ns):
            self._tell_health(mono_ns, wall_ns)
        if self._is_pushed(mono_ns):
            self._push_ns = None
            self._tell_health(mono_ns, wall_ns)
            self.flush(mono_ns)
        elif self._file_due(mono_ns):
            self.flush(mono_ns)
        return self._next_ns()

    def push(self, mono_ns: int) -> None:
        """A job has ended here: all that was counted until now is read, and sent with the agent's health, which says
        that nothing of this time is missing. On its own grid everything goes on as before."""
        if self._push_ns is not None:
            return
        self._push_ns = mono_ns + PUSH_NS
        self._pushed()
        for one in self.watched:
            if one.state == OK and not one.running and one.period_ns <= self._ship_ns:
                one.running = True
                self._crew.start(one.name, one.probe)

    def _is_pushed(self, mono_ns: int) -> bool:
        if self._push_ns is None:
            return False
        waited = any(one.running and one.name not in self._crew.stuck for one in self.watched)
        return not waited or mono_ns >= self._push_ns

    def _next_ns(self) -> int:
        times = [one.grid.next_ns for one in self.watched if not one.running and one.name not in self._crew.stuck]
        times += [self._ship.next_ns, self._health.next_ns]
        times += [at for at in (self._push_ns, self._soon_ns) if at is not None]
        deadline = self._crew.compute_deadline_ns()
        return min(times if deadline is None else [*times, deadline])

    def _realign(self, mono_ns: int, wall_ns: int) -> None:
        """Grids follow the wall clock that was set."""
        for one in self.watched:
            if one.state != MISSING:
                one.grid.next_ns = align_schedule(mono_ns, wall_ns, one.period_ns)

    def record_event(self, wall_ns: int, kind: str, text: str) -> None:
        """Something happened to the agent or its node."""
        self.sheets.add_event(Event(wall_ns, self.node, kind, text))
        self._lively = True

    # -- what probes found ----------------------------------------------------------------------------------------

    def _take(self, outcome: Outcome, mono_ns: int) -> None:
        one = next(watched for watched in self.watched if watched.name == outcome.name)
        first = not one.state
        one.running = False
        one.looks += 1
        one.state = outcome.state
        one.tally.count_run(outcome)
        if outcome.found is None:
            if outcome.state == MISSING:
                one.series.clear()
                one.grid.next_ns = mono_ns + LOOK_AGAIN_NS
            return
        one.seen = True
        if first:
            # From now on with the wall clock; half a period at least lies between the base and the first delta.
            at = align_schedule(outcome.at_ns, outcome.wall_ns, one.period_ns)
            one.grid.next_ns = at if at - outcome.at_ns >= one.period_ns // 2 else at + one.period_ns
        for reading in outcome.found.readings:
            one.tally.unknown_lines += reading.unknown
            if reading.unknown and reading.unknown_example:
                one.tally.example = reading.unknown_example
            self._advance(one, reading, outcome)
        for event in outcome.found.events:
            self.sheets.add_event(event)
            one.tally.rows += 1
            self._lively = True
        for served in outcome.found.served:
            self.sheets.add_served(served)
            one.tally.rows += 1
            self._lively = True
        if any(served.to_ns is not None for served in outcome.found.served):
            self.push(mono_ns)

    def _advance(self, one: WatchedProbe, reading: Reading, outcome: Outcome) -> None:
        shape = describe_delta_shape(reading)
        deltas = one.series.pop(shape, None) or Deltas(self._quiet_ns)
        one.series[shape] = deltas  # the last looked at is the last to go
        while len(one.series) > _MAX_SHAPES:
            del one.series[next(iter(one.series))]
        before = deltas.left_out, deltas.resets
        add = self.sheets.add_reading
        for key, values, interval, idle in deltas.advance(reading, outcome.at_ns):
            one.tally.rows += add(reading, outcome.wall_ns, key, values, interval)
            if not idle:
                self._lively = True
                if self._soon_ns is None and "job_id" in reading.keys and reading.table in SERVERS:
                    self._soon_ns = outcome.at_ns + SOON_NS
        one.tally.left_out += deltas.left_out - before[0]
        one.tally.resets += deltas.resets - before[1]

    # -- files ----------------------------------------------------------------------------------------------------

    def _file_due(self, mono_ns: int) -> bool:
        if self.sheets.waiting_bytes >= MOST_WAITING or (self._soon_ns is not None and mono_ns >= self._soon_ns):
            return True
        if not self._ship.is_due(mono_ns):
            return False
        self._ship.take_tick(mono_ns)
        # A quarter of a period of grace: the grid is steadier than the file before it was.
        return self._lively or mono_ns - self._written_ns >= self._idle_ns - self._ship_ns // 4

    def flush(self, mono_ns: int) -> None:
        """Everything that waits becomes a file of the spool."""
        batches = self.sheets.take_batches()
        self._lively = False
        self._soon_ns = None
        self._written_ns = mono_ns
        if batches and self._spool.write(batches) is not None:
            self._wrote()

    @property
    def looked_twice(self) -> bool:
        """Whether all that look once a second or more often, and find something, have a base and a delta."""
        return not any(
            one.running or (one.state == OK and one.looks < 2 and one.period_ns <= SECOND_NS) for one in self.watched
        )

    def finish(self, mono_ns: int, wall_ns: int) -> None:
        """The end: what was found so far, and how it went, become the last file."""
        for outcome in self._crew.collect(mono_ns):
            self._take(outcome, mono_ns)
        self._tell_health(mono_ns, wall_ns)
        self.flush(mono_ns)

    # -- health ---------------------------------------------------------------------------------------------------

    def _tell_health(self, mono_ns: int, wall_ns: int) -> None:
        if self._health.is_due(mono_ns):
            self._health.take_tick(mono_ns)
        interval = mono_ns - self._told_at_ns
        self._told_at_ns = mono_ns
        for one in self.watched:
            if one.running and not one.state:
                continue  # its first look is not over
            if one.state == MISSING and not (one.asked_for or one.seen):
                continue
            if one.state:
                self._row(wall_ns, one.name, one.tally.state or one.state, interval, one.tally, None)
            one.tally = Tally()
        told, cost = self._told(), self._cost()
        lost = self._spool.lost_batches + told.refused
        whole = Tally()
        before, self._told_before = self._told_before, told
        whole.runs, whole.rows = told.sent_files - before.sent_files, told.sent_batches - before.sent_batches
        whole.failures = told.failures - before.failures
        whole.busy_ns = cost.cpu_ns - self._before.cpu_ns
        whole.text = told.text
        state = "lost" if lost > self._lost_before else FAILING if told.failing else OK
        own = (lost - self._lost_before, cost.memory_bytes, told.offset_ns)
        self._row(wall_ns, "agent", state, interval, whole, own)
        self._before, self._lost_before = cost, lost
        if told.spools:
            spools = Tally()
            spools.runs = spools.rows = told.foreign_files - before.foreign_files
            self._row(wall_ns, "spools", OK if told.spools_found else MISSING, interval, spools, None)
        if not self._first_told:
            self._first_told = True
            self._lively = True  # that a node is there is worth telling soon

    def _row(
        self,
        wall_ns: int,
        name: str,
        state: str,
        interval_ns: int,
        tally: Tally,
        own: Optional[Tuple[int, Optional[int], Optional[int]]],
    ) -> None:
        words, figures = build_agent_health_row(wall_ns, self.node, name, state, interval_ns, tally, own)
        self.sheets.add("health", wall_ns, words, figures)
