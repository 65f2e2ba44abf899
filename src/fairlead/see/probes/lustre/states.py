"""What befell Lustre's connections and targets, as events: lost and found, evicted, failed over, recovered, unhealthy.

And LNet's counters as a `port`. Not here: lines of the kernel's log.
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from fairlead.see.probes.base import Event, Key, ProbeResult, Reading
from fairlead.see.probes.lustre.lustre_probe import LustreProbe, Tally, find_lustre_target, is_lustre_option_on
from fairlead.see.probes.lustre.parameters import Parameter, Place, Tree
from fairlead.see.probes.lustre.space import read_space_number
from fairlead.see.probes.lustre.stats_lines import MOST, format_stats_line

_RECENT_NS = 600 * 10**9
"""At the first look, what happened longer ago is not told: an agent that starts again would tell it twice."""
_HISTORY = re.compile(rb"^[ \t]*- \[[ \t]*(\d{1,10}),[ \t]*([A-Z_]+)[ \t]*\]", re.M)
_FIELD = re.compile(rb"^[ \t]*([a-z_]+):([^\n]*)$", re.M)
_LOST = ("DISCONN", "EVICTED")
_FEWER = 0.9


class Import(NamedTuple):
    """A client's connection to a target; None where the text does not say."""

    target: Optional[str]
    state: Optional[str]
    connection: Optional[str]
    timeouts: Optional[int]


class Recovery(NamedTuple):
    """How a target's recovery stands or went; times epoch ns."""

    status: str
    start_ns: Optional[int]
    end_ns: Optional[int]
    clients: Optional[str]
    evicted: Optional[int]


class _Look(NamedTuple):
    """One look: the events found, lines not understood, since when things are told, now (epoch ns)."""

    events: List[Event]
    tally: Tally
    since_ns: int
    now_ns: int


def parse_state_history(text: bytes) -> List[Tuple[int, str]]:
    """The states of a connection a `state` file lists: (epoch ns, state), oldest first."""
    return [(int(seconds) * 10**9, word.decode()) for seconds, word in _HISTORY.findall(text)]


def parse_import_state(text: bytes) -> Import:
    """What an `import` file says of its connection."""
    fields = _fields(text)
    timeouts = fields.get("timeouts", "")
    return Import(
        fields.get("target"),
        fields.get("state"),
        fields.get("current_connection"),
        int(timeouts[:18]) if timeouts.isdigit() else None,
    )


def parse_recovery_state(text: bytes) -> Recovery:
    """What a `recovery_status` file says."""
    fields = _fields(text)
    start = _seconds(fields.get("recovery_start", ""))
    length = _seconds(fields.get("recovery_duration", ""))
    done = start is not None and length is not None and fields.get("status") == "COMPLETE"
    evicted = fields.get("evicted_clients", "")
    return Recovery(
        fields.get("status", ""),
        start or None,
        (start or 0) + (length or 0) if done else None,
        fields.get("completed_clients"),
        int(evicted[:18]) if evicted.isdigit() else None,
    )


def _seconds(text: str) -> Optional[int]:
    return int(text) * 10**9 if text.isdigit() and len(text) <= 10 else None


def _fields(text: bytes) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        found.setdefault(name.decode(), value.strip().decode("utf-8", "replace"))
    return found


class StatesProbe(LustreProbe):
    """Connections (`state`, `import`), targets (`recovery_status`, `eviction_count`, `num_exports`), `health_check`.

    `history`: tell all a text holds at the first look, however old (a dump looked at by hand).
    """

    name = "lustre_states"
    kind = "Lustre node"
    period_s = 10.0
    wants = (
        "health_check",
        "osc/*/state",
        "mdc/*/state",
        "osp/*/state",
        "mgc/*/state",
        "osc/*/import",
        "mdc/*/import",
        "osp/*/import",
        "mgc/*/import",
        "obdfilter/*/recovery_status",
        "mdt/*/recovery_status",
        "obdfilter/*/eviction_count",
        "mdt/*/eviction_count",
        "mgs/*/eviction_count",
        "obdfilter/*/num_exports",
        "mdt/*/num_exports",
        "mgs/*/num_exports",
    )

    def __init__(self, *arguments: Any, history: Union[bool, str] = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._history = is_lustre_option_on(history)
        self._looked_before = False
        self._last: Dict[str, Any] = {}

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:
        """What happened since the last look. Readings are empty."""
        tally = Tally()
        look = _Look([], tally, 0 if self._history else now_ns - _RECENT_NS, now_ns)
        any_there = False
        last: Dict[str, Any] = {}
        for pattern in self.wants:
            leaf = pattern.rsplit("/", 1)[-1]
            for one in place.find(pattern):
                any_there = True
                text = place.read(one, 1 << 16)
                name = "{}:{}".format(leaf, "/".join((pattern.split("/")[0], *one.stars)))
                before = self._last.get(name)
                last[name] = _TOLD[leaf](self, one, text, before, look)
        self._last = last
        self._looked_before = True
        if not any_there:
            return None
        counted = Reading("events", (), (), (), {}, None, tally.unknown, tally.example)
        return ProbeResult([counted] if tally.unknown else [], look.events)

    def check_health(self, _one: Parameter, text: bytes, before: Any, look: _Look) -> str:
        """health_check: a change, or that it is not well at the first look."""
        words = format_stats_line(b" ".join(text.split()))
        well = words.lower() == "healthy"
        if (before is None and not well) or (before is not None and before != words):
            said = "Lustre is healthy again" if well else "Lustre reports: {}".format(words)
            look.events.append(Event(look.now_ns, self.node or "lustre", "health", said))
        return words

    def state(self, one: Parameter, text: bytes, before: Any, look: _Look) -> Any:
        """state: connections lost and found again."""
        entries = parse_state_history(text)
        if not entries and text.strip():
            look.tally.add(1, format_stats_line(text))
        since = look.since_ns if before is None else before
        lost: Optional[int] = None
        component = _find_reached_target(one.stars[0])
        who = self.node or "a client"
        for at, (moment, word) in enumerate(entries):
            if word in _LOST and lost is None:
                lost = moment
                if moment > since:
                    back = next((m for m, w in entries[at:] if w == "FULL"), None)
                    kind = "eviction" if word == "EVICTED" else "disconnect"
                    said = "{} {} {}".format(who, "was evicted by" if word == "EVICTED" else "lost", component)
                    look.events.append(Event(moment, component, kind, said, back))
            elif word == "EVICTED" and moment > since:
                look.events.append(Event(moment, component, "eviction", "{} was evicted by {}".format(who, component)))
            elif word == "FULL" and lost is not None:
                if moment > since:
                    away = (moment - lost) // 10**9
                    said = "{} reached {} again after {} s".format(who, component, away)
                    look.events.append(Event(moment, component, "reconnect", said))
                lost = None
        return max([since, *(moment for moment, _ in entries)])

    def check_connection(self, one: Parameter, text: bytes, before: Any, look: _Look) -> Any:
        """import: another server took the target over, requests timed out."""
        now = parse_import_state(text)
        if now.state is None:
            look.tally.add(1, format_stats_line(text) or "an empty import")
        if isinstance(before, Import):
            component = _find_reached_target(one.stars[0])
            if before.connection and now.connection and before.connection != now.connection:
                said = "{} is reached at {}, no longer at {}".format(component, now.connection, before.connection)
                look.events.append(Event(look.now_ns, component, "failover", said))
            if before.timeouts is not None and now.timeouts is not None and now.timeouts > before.timeouts:
                said = "{} requests of {} to {} timed out".format(
                    now.timeouts - before.timeouts, self.node or "a client", component
                )
                look.events.append(Event(look.now_ns, component, "timeouts", said))
        return now

    def check_recovery(self, one: Parameter, text: bytes, before: Any, look: _Look) -> Any:
        """recovery_status: a recovery that began, or ended."""
        now = parse_recovery_state(text)
        if not now.status:
            look.tally.add(1, format_stats_line(text) or "an empty recovery_status")
        if now.start_ns is not None and now != before and (now.end_ns or now.start_ns) > look.since_ns:
            said = "recovery of {}: {}".format(one.stars[0], now.status)
            if now.clients:
                said += ", clients {}".format(now.clients)
            if now.evicted:
                said += ", {} evicted".format(now.evicted)
            look.events.append(Event(now.start_ns, one.stars[0], "recovery", said, now.end_ns))
        return now

    def check_evictions(self, one: Parameter, text: bytes, before: Any, look: _Look) -> Any:
        """eviction_count: clients that a target evicted."""
        now = read_space_number(text, look.tally)
        if now is not None and before is not None and now > before:
            said = "{} evicted {} clients".format(one.stars[0], now - before)
            look.events.append(Event(look.now_ns, one.stars[0], "eviction", said))
        return now

    def check_exports(self, one: Parameter, text: bytes, before: Any, look: _Look) -> Any:
        """num_exports: a tenth of a target's clients, two at least, went away at once."""
        now = read_space_number(text, look.tally)
        if now is not None and before is not None and before - now >= 2 and now <= before * _FEWER:
            said = "{} has {} clients, had {}".format(one.stars[0], now, before)
            look.events.append(Event(look.now_ns, one.stars[0], "clients_lost", said))
        return now


_TOLD = {
    "health_check": StatesProbe.check_health,
    "state": StatesProbe.state,
    "import": StatesProbe.check_connection,
    "recovery_status": StatesProbe.check_recovery,
    "eviction_count": StatesProbe.check_evictions,
    "num_exports": StatesProbe.check_exports,
}


def _find_reached_target(device: str) -> str:
    """The target a connection's device reaches; the device itself where its name does not tell."""
    target = find_lustre_target(device)
    if target is None and "-osc-" in device:
        target = device.rsplit("-osc-", 1)[0]
    return target or device


class LnetProbe(LustreProbe):
    """LNet's messages and bytes of this node, over all its interfaces, as a `port` named `lnet`."""

    name = "lustre_lnet"
    kind = "LNet node"
    wants = ("stats",)
    bases = ("sys/kernel/debug/lnet", "proc/sys/lnet")

    def __init__(self, root: str = "/", node: str = "", **options: Any) -> None:
        super().__init__(root, node, **options)
        self.tree = Tree(root)
        self.tree.bases = [os.path.join(root, base) for base in self.bases]

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """The counters of this node."""
        tally = Tally()
        rows: Dict[Key, Sequence[Any]] = {}
        for one in place.find(self.wants[0]):
            row = parse_lnet_state(place.read(one, 4096))
            if row is None:
                tally.add(1, format_stats_line(place.read(one, 4096)) or "an empty file")
            else:
                rows["lnet",] = row
        if not rows and not tally.unknown:
            return None
        counters = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "errors")
        constant = (("switch", self.node or None),)
        return ProbeResult(
            [Reading("port", ("port",), counters, (), rows, None, tally.unknown, tally.example, constant)]
        )


def parse_lnet_state(text: bytes) -> Optional[List[int]]:
    """Bytes and messages sent and received, errors and drops, of LNet's line of eleven numbers; None if it is none."""
    words = text.split()
    if len(words) != 11 or not all(word.isdigit() for word in words):
        return None
    errors, sent, received, dropped, out, into = (min(MOST, int(words[k][:40])) for k in (2, 3, 4, 6, 7, 8))
    return [out, into, sent, received, min(MOST, errors + dropped)]
