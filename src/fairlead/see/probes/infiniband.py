"""InfiniBand: a node's own ports (sysfs), and a fabric's switches through the texts of the usual tools. Rows of `port`.

Data counters of the standard count words of 4 bytes; everything here is bytes. Not here: which job used a port
(`analysis.switch_ports`).
"""

import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from fairlead.see.probes.base import AbsentError, Event, Key, Probe, ProbeResult, Reading
from fairlead.see.probes.commands import read_probe_command_output

KEYS = ("switch", "port", "peer")
COUNTERS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "waits", "errors")
_WORD = 4
_ERRORS = (
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
)
"""What counts as an error of a port. PortRcvSwitchRelayErrors does not: it counts multicast that came back."""
_SYSFS_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
)
_HEAD = re.compile(r"# (?P<what>[^:]+) counters: Lid (?P<lid>\d+) port (?P<port>\d+)")
_VALUE = re.compile(r"(?P<name>\w+):\.*(?P<value>0x[0-9a-fA-F]+|\d+)\Z")
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


class PortCounters(NamedTuple):
    """What `perfquery` printed of one port: its LID, its number, counters by their name in the standard."""

    lid: int
    port: int
    values: Dict[str, int]


class Link(NamedTuple):
    """One line of `ibnetdiscover -p`: a port, and what it is connected to (None: nothing)."""

    kind: str
    lid: int
    port: int
    guid: str
    name: str
    width: str
    speed: str
    peer_kind: Optional[str] = None
    peer_lid: Optional[int] = None
    peer_port: Optional[int] = None
    peer_guid: Optional[str] = None
    peer_name: Optional[str] = None


def parse_infiniband_ports(text: str) -> Tuple[List[PortCounters], int, str]:
    """Ports in the output of `perfquery -x` (or `-E`), lines not understood, and one of these."""
    ports: List[PortCounters] = []
    unknown, example = 0, ""
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        head = _HEAD.match(line)
        if head:
            ports.append(PortCounters(int(head.group("lid")), int(head.group("port")), {}))
            continue
        value = _VALUE.match(line)
        if value and ports:
            ports[-1].values[value.group("name")] = int(value.group("value"), 0)
        else:
            unknown += 1
            example = example or line[:80]
    return ports, unknown, example


def select_infiniband_counters(values: Dict[str, int]) -> List[Optional[int]]:
    """Values of `COUNTERS` for one port; None for what this port does not count."""
    known = [values[name] for name in _ERRORS if name in values]
    return [
        _times(values.get("PortXmitData"), _WORD),
        _times(values.get("PortRcvData"), _WORD),
        values.get("PortXmitPkts"),
        values.get("PortRcvPkts"),
        values.get("PortXmitWait"),
        sum(known) if known else None,
    ]


def _times(value: Optional[int], factor: int) -> Optional[int]:
    return None if value is None else value * factor


_END = r"(?P<{0}kind>CA|SW|RT)\s+(?P<{0}lid>\d+)\s+(?P<{0}port>\d+)\s+(?P<{0}guid>0x[0-9a-fA-F]+)"
_LINE = re.compile(_END.format("") + r"\s+(?P<width>\d+x)\s+(?P<speed>\S+)\s*(?P<rest>.*)\Z")
_PEER = re.compile(r"-\s+" + _END.format("") + r"\s+\(\s*(?P<names>.*)\)\s*\Z")


def parse_infiniband_links(text: str) -> Tuple[List[Link], int, str]:
    """Links in the output of `ibnetdiscover -p`, lines not understood, and one of these."""
    links: List[Link] = []
    unknown, example = 0, ""
    for line in text.splitlines():
        if not line.strip():
            continue
        whole = _LINE.match(line.strip())
        link = None if whole is None else _link(whole)
        if link is None:
            unknown += 1
            example = example or line.strip()[:80]
        else:
            links.append(link)
    return links, unknown, example


def _link(line: "re.Match[str]") -> Optional[Link]:
    kind, lid, port, guid = line.group("kind"), int(line.group("lid")), int(line.group("port")), line.group("guid")
    rest = line.group("rest").strip()
    if not rest.startswith("-"):
        return Link(kind, lid, port, guid, _bare(rest), line.group("width"), line.group("speed"))
    peer = _PEER.match(rest)
    if peer is None:
        return None
    own, _, other = peer.group("names").partition(" - ")
    return Link(
        kind,
        lid,
        port,
        guid,
        _bare(own),
        line.group("width"),
        line.group("speed"),
        peer.group("kind"),
        int(peer.group("lid")),
        int(peer.group("port")),
        peer.group("guid"),
        _bare(other),
    )


def _bare(name: str) -> str:
    return name.strip().strip("'").strip()


class SwitchInfo(NamedTuple):
    """What `ibswinfo` printed of one switch: values by `section/name` (`PSU0/power (W)`), None where it is empty."""

    values: Dict[str, Optional[str]]
    faults: List[str]
    """Parts whose status is not OK, as `fan status ERROR`."""


def parse_infiniband_switch(text: str) -> SwitchInfo:
    """The values of a switch; indented lines belong to the part above them."""
    values: Dict[str, Optional[str]] = {}
    faults: List[str] = []
    part = ""
    for line in text.splitlines():
        name, bar, value = line.partition("|")
        if not bar:
            continue
        inner = name.startswith(" ")
        name, value = name.strip(), value.strip()
        if not inner:
            part = name.partition(" ")[0] if name.startswith("PSU") else ""
        key = "{}/{}".format(part, name) if inner and part else name
        values[key] = value or None
        if (name.endswith("status") or name == "DC power") and value and value != "OK":
            faults.append("{} {}".format(key, value))
    return SwitchInfo(values, faults)


class Ports(Probe):
    """`port` rows of the node's own adapters, from /sys/class/infiniband."""

    name = "infiniband"

    def read(self, now_ns: int) -> ProbeResult:  # noqa: ARG002
        """Raises AbsentError where no adapter is, OSError."""
        base = os.path.join(self.root, "sys/class/infiniband")
        try:
            adapters = sorted(os.listdir(base))
        except FileNotFoundError:
            raise AbsentError("no /sys/class/infiniband: no adapter, or its driver is not loaded") from None
        rows: Dict[Key, Sequence[Any]] = {}
        for adapter in adapters:
            for port in sorted(os.listdir(os.path.join(base, adapter, "ports"))):
                folder = os.path.join(base, adapter, "ports", port)
                rows[(self.node, "{}/{}".format(adapter, port), None)] = _sysfs_port(folder)
        return ProbeResult([Reading("port", KEYS, COUNTERS, ("rate_bytes_per_s",), rows)])


def _sysfs_port(folder: str) -> List[Any]:
    counters = os.path.join(folder, "counters")
    values = [_number(os.path.join(counters, "port_" + name)) for name in ("xmit_data", "rcv_data")]
    packets = [_number(os.path.join(counters, "port_" + name)) for name in ("xmit_packets", "rcv_packets", "xmit_wait")]
    errors = [
        number for number in (_number(os.path.join(counters, name)) for name in _SYSFS_ERRORS) if number is not None
    ]
    return [*(_times(value, _WORD) for value in values), *packets, sum(errors) if errors else None, _rate(folder)]


def _number(path: str) -> Optional[int]:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):  # `N/A (no PMA)` on virtual functions
        return None


def _rate(folder: str) -> Optional[float]:
    try:
        with open(os.path.join(folder, "rate")) as file:
            found = _RATE.match(file.read())
    except OSError:
        return None
    return float(found.group(1)) * 1e9 / 8 if found else None


class Switches(Probe):
    """`port` rows of the fabric's switches: `perfquery -x` of the ports `ibnetdiscover -p` names. For one node only."""

    name = "switches"
    period_s = 60.0
    timeout_s = 50.0
    discover: Sequence[str] = ("ibnetdiscover", "-p")
    query: Sequence[str] = ("perfquery", "-x", "-l")

    def __init__(self, root: str = "/", node: str = "") -> None:
        super().__init__(root, node)
        self._links: List[Link] = []

    def read(self, now_ns: int) -> ProbeResult:
        """Raises AbsentError where the tools are not, OSError."""
        text = read_probe_command_output(list(self.discover), self.timeout_s).decode("utf-8", "replace")
        links, unknown, example = parse_infiniband_links(text)
        events = _changed(self._links, links, now_ns)
        self._links = links
        rows: Dict[Key, Sequence[Any]] = {}
        for lid in sorted({link.lid for link in links if link.kind == "SW"}):
            ports = sorted(link.port for link in links if link.lid == lid and link.peer_lid is not None)
            argv = [*self.query, str(lid), ",".join(str(port) for port in ports)]
            printed = read_probe_command_output(argv, self.timeout_s).decode("utf-8", "replace")
            found, strange, one = parse_infiniband_ports(printed)
            rows.update(build_infiniband_switch_rows(found, links))
            unknown += strange
            example = example or one
        reading = Reading("port", KEYS, COUNTERS, (), rows, unknown=unknown, unknown_example=example)
        return ProbeResult([reading], events)


def build_infiniband_switch_rows(ports: Sequence[PortCounters], links: Sequence[Link]) -> "Dict[Key, Sequence[Any]]":
    """Rows of `port` by (switch, port, peer): names from the discovery, the LID where it knows none."""
    known = {(link.lid, link.port): link for link in links}
    names = {link.lid: link.name for link in links}
    rows: Dict[Key, Sequence[Any]] = {}
    for port in ports:
        link = known.get((port.lid, port.port))
        switch = names.get(port.lid) or "lid-{}".format(port.lid)
        rows[(switch, str(port.port), link.peer_name if link else None)] = list(select_infiniband_counters(port.values))
    return rows


def _changed(before: Sequence[Link], now: Sequence[Link], now_ns: int) -> List[Event]:
    """Links that went or came since the last look."""
    if not before:
        return []
    was = {(link.name, link.port): link for link in before if link.peer_name}
    is_now = {(link.name, link.port): link for link in now if link.peer_name}
    return [
        Event(now_ns, "{}:{}".format(*key), kind, "link to {}".format(here[key].peer_name))
        for kind, here, there in (("link_down", was, is_now), ("link_up", is_now, was))
        for key in sorted(set(here) - set(there))
    ]
