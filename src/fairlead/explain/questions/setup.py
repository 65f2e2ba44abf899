"""What is connected and what is not, each with the one command that connects it. Pure: facts in, answer out.

Not here: where the facts are from (`setup_facts` of the lake, `run.setup_route` of the settings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.model.unit_formats import NS_PER_S, format_bytes, format_duration, format_time
from fairlead.explain.questions.answers_setup import Connected, Setup, SetupPart

QUIET_NS = 900 * NS_PER_S
"""What was not heard of for so long is quiet."""
SLOW_NS = 6 * 3600 * NS_PER_S
"""The same for what is told of at long intervals: jobs, space."""


@dataclass(frozen=True, kw_only=True)
class TableActivity:
    """What the lake holds of one table: when its last row is dated, and how many name who sent them."""

    last_ns: int | None = None
    senders: int | None = None


@dataclass(frozen=True, kw_only=True)
class LakeSeen:
    """The lake as it was found. `trouble`: why it cannot be read; then nothing else is known."""

    there: bool = False
    trouble: str = ""
    bytes: int | None = None
    first_ns: int | None = None
    tables: dict[str, TableActivity] = field(default_factory=dict)
    nodes: int = 0
    """Agents heard of in the last three days..."""
    nodes_ok: int = 0
    """... and of these those heard of lately."""
    node_last_ns: int | None = None
    analysed_ns: int | None = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What the settings say. Addresses as they are listened on; `state`: the name of the state folder only."""

    version: str
    state: str = ""
    collector: Sequence[str] = ()
    api: Sequence[str] = ()
    tls: bool = False
    simulated: bool = False
    analysis: bool = True
    feeds: dict[str, int] = field(default_factory=dict)
    """Feeds set up by kind: slurm, job_table, prometheus, drop, darshan."""
    site: bool = False
    alert_routes: int = 0
    ways: Sequence[str] = ()
    accounts: int | None = None


def list_setup_steps(settled: ServerSettings, lake: LakeSeen, now_ns: int) -> Setup:
    """The whole list, in the order it is best done in."""
    parts = [
        _server(settled),
        _lake(lake),
        _analysis(settled, lake, now_ns),
        _agents(settled, lake, now_ns),
        *_layers(lake, now_ns),
        *_feeds(settled, lake, now_ns),
        *_site(settled),
        _people(settled),
    ]
    states = [part.state for part in parts]
    return Setup(
        now_ns=now_ns,
        version=settled.version,
        simulated=settled.simulated,
        first_run=not any(seen.last_ns for seen in lake.tables.values()) and not lake.trouble,
        connected=states.count("connected"),
        quiet=states.count("quiet"),
        missing=states.count("not"),
        parts=parts,
    )


def _server(settled: ServerSettings) -> SetupPart:
    where = ", ".join([*settled.collector, *settled.api]) or "an unknown address"
    secure = "records and passwords travel encrypted" if settled.tls else "unencrypted, on this machine only"
    open_ = [one for one in [*settled.collector, *settled.api] if one.startswith("tcp:") and not _here(one)]
    if open_:
        secure = "unencrypted, and others can reach it"
    return SetupPart(
        key="server",
        group="server",
        title="Server",
        state="connected",
        what=f"fairlead {settled.version} listens on {where}: {secure}; its state is in {settled.state or '?'}/",
        command="fairlead up --set collector.listen=tls:0.0.0.0:8571 --set collector.tls_certificate=CERT.pem"
        " --set collector.tls_key=KEY.pem"
        if open_
        else "",
        docs="howto/run-the-server",
    )


def _here(address: str) -> bool:
    return address.removeprefix("tcp:").rpartition(":")[0] in ("127.0.0.1", "[::1]", "::1", "localhost")


def _lake(lake: LakeSeen) -> SetupPart:
    common: dict[str, Any] = {"key": "lake", "group": "server", "title": "Lake", "docs": "howto/keep-a-lake"}
    last = max((seen.last_ns for seen in lake.tables.values() if seen.last_ns), default=None)
    if lake.trouble:
        return SetupPart(**common, state="not", what=f"it cannot be read: {lake.trouble}", command="fairlead lake info")
    if not lake.there:
        return SetupPart(
            **common,
            state="not",
            what="there is none yet: the collector creates it when it starts",
            command="fairlead up",
        )
    size = "its size is not known" if lake.bytes is None else format_bytes(lake.bytes)
    if last is None:
        return SetupPart(
            **common, state="quiet", what=f"{size}; nothing was recorded yet", command="fairlead ingest LOG..."
        )
    first = "" if lake.first_ns is None else f" from {format_time(lake.first_ns)}"
    return SetupPart(**common, state="connected", what=f"{size}; records{first} to {format_time(last)}", last_ns=last)


def _analysis(settled: ServerSettings, lake: LakeSeen, now_ns: int) -> SetupPart:
    common: dict[str, Any] = {
        "key": "analysis",
        "group": "server",
        "title": "Analysis",
        "docs": "howto/find-out-why",
        "last_ns": lake.analysed_ns,
    }
    if not settled.analysis:
        return SetupPart(
            **common,
            state="not",
            what="it is off: jobs are not summarised and nothing is diagnosed",
            command="fairlead up --set analysis.on=true",
        )
    if lake.analysed_ns is None:
        return SetupPart(**common, state="quiet", what="it runs; no job to analyse has ended yet")
    late = now_ns - lake.analysed_ns > SLOW_NS
    return SetupPart(
        **common,
        state="quiet" if late else "connected",
        what=f"it runs; the last job was analysed {_ago(lake.analysed_ns, now_ns)}",
    )


def _agents(settled: ServerSettings, lake: LakeSeen, now_ns: int) -> SetupPart:
    address = next((one for one in settled.collector if one.startswith(("tls:", "tcp:"))), "")
    kind, _, place = address.partition(":")
    url = f"{'https' if kind == 'tls' else 'http'}://{place}" if place else "https://SERVER:8571"
    command = f"fairlead agent run --server {url} --token agent.token"
    common: dict[str, Any] = {
        "key": "agents",
        "group": "watching",
        "title": "Agents on nodes and servers",
        "command": command,
        "docs": "howto/run-the-agent",
    }
    if not lake.nodes:
        return SetupPart(**common, state="not", what="no agent reported in the last three days")
    what = f"{lake.nodes_ok:,} of {lake.nodes:,} agents reported recently"
    if lake.node_last_ns is not None:
        what += f", the last one {_ago(lake.node_last_ns, now_ns)}"
    return SetupPart(
        **common,
        state="connected" if lake.nodes_ok else "quiet",
        what=what,
        count=lake.nodes,
        last_ns=lake.node_last_ns,
    )


_LAYERS = (
    (
        "clients",
        "Operations of jobs",
        ("ops", "op_groups"),
        "fairlead mount FORWARDER MOUNTPOINT",
        "howto/mount-through-forwarders",
    ),
    ("forwarders", "Forwarders", ("forwarder",), "fairlead forwarder run", "tutorial/forwarding"),
    (
        "pfs_clients",
        "Lustre and GPFS clients",
        ("pfs_client",),
        "fairlead agent run --probes lustre_client",
        "reference/agent",
    ),
    ("targets", "Storage targets", ("target",), "fairlead agent run --probes lustre_oss", "reference/agent"),
    ("metadata", "Metadata servers", ("metadata",), "fairlead agent run --probes lustre_mds", "reference/agent"),
    ("devices", "Devices", ("device",), "fairlead agent run --probes disks", "reference/agent"),
    ("ports", "Network ports", ("port",), "fairlead agent run --probes infiniband", "reference/agent"),
    ("usage", "Space by owner", ("usage",), "fairlead agent run --probes usage", "reference/agent"),
)


def _layers(lake: LakeSeen, now_ns: int) -> list[SetupPart]:
    found = []
    for key, title, tables, command, docs in _LAYERS:
        seen = [lake.tables[name] for name in tables if name in lake.tables]
        last = max((one.last_ns for one in seen if one.last_ns), default=None)
        count = max((one.senders for one in seen if one.senders is not None), default=None)
        found.append(
            SetupPart(
                key=key,
                group="watching",
                title=title,
                state=_state(last, now_ns, SLOW_NS if key == "usage" else QUIET_NS),
                what=_heard(last, now_ns),
                last_ns=last,
                count=count,
                command=command,
                docs=docs,
            )
        )
    return found


_FEEDS = (
    ("slurm", "Jobs from Slurm", "fairlead up --config FILE   # with [[feeds.slurm]] in FILE", "howto/feed-jobs"),
    (
        "job_table",
        "Jobs from a table",
        "fairlead up --config FILE   # with [[feeds.job_table]] in FILE",
        "howto/feed-jobs",
    ),
    (
        "prometheus",
        "Prometheus",
        "fairlead up --config FILE   # with [feeds.remote_write] in FILE",
        "howto/feed-from-prometheus",
    ),
    ("folders", "Folders of logs", "fairlead ingest LOG...", "howto/batch-of-logs"),
)


def _feeds(settled: ServerSettings, lake: LakeSeen, now_ns: int) -> list[SetupPart]:
    last = lake.tables.get("jobs", TableActivity()).last_ns
    jobs = SetupPart(
        key="jobs",
        group="feeds",
        title="Jobs",
        state=_state(last, now_ns, SLOW_NS),
        what=_heard(last, now_ns),
        last_ns=last,
        command="" if last else "fairlead up --config FILE   # with [[feeds.slurm]] in FILE",
        docs="howto/feed-jobs",
    )
    kinds = {
        "slurm": ("slurm",),
        "job_table": ("job_table",),
        "prometheus": ("scrape", "remote_write"),
        "folders": ("drop", "darshan"),
    }
    found = [jobs]
    for key, title, command, docs in _FEEDS:
        count = sum(settled.feeds.get(kind, 0) for kind in kinds[key])
        found.append(
            SetupPart(
                key=key,
                group="feeds",
                title=title,
                state="connected" if count else "not",
                what=f"{count} set up" if count else "not set up",
                count=count,
                command="" if count else command,
                docs=docs,
            )
        )
    return found


def _site(settled: ServerSettings) -> list[SetupPart]:
    return [
        SetupPart(
            key="site",
            group="site",
            title="Description of the site",
            state="connected" if settled.site else "not",
            what="a file describes which forwarders and targets serve which nodes"
            if settled.site
            else "none: which forwarders and targets serve which nodes is only known from records",
            command="" if settled.site else "fairlead site init > site.toml && fairlead up --set server.site=site.toml",
            docs="howto/describe-a-site",
        ),
        SetupPart(
            key="alerts",
            group="site",
            title="Alerts",
            state="connected" if settled.alert_routes else "not",
            what=f"{settled.alert_routes} routes" if settled.alert_routes else "no alerts are sent",
            count=settled.alert_routes,
            command="" if settled.alert_routes else "fairlead alert test ROUTE",
            docs="howto/get-alerts",
        ),
    ]


def _people(settled: ServerSettings) -> SetupPart:
    common: dict[str, Any] = {"key": "people", "group": "people", "title": "Sign-in", "docs": "howto/sign-in"}
    if not settled.ways:
        return SetupPart(**common, state="not", what="nobody can sign in", command="fairlead up --set web.on=true")
    known = "" if settled.accounts is None else f"; {settled.accounts} accounts"
    return SetupPart(
        **common,
        state="connected",
        what=f"by {', '.join(settled.ways)}{known}",
        count=settled.accounts,
        command="fairlead account add NAME",
    )


def _state(last_ns: int | None, now_ns: int, quiet_ns: int) -> Connected:
    if last_ns is None:
        return "not"
    return "connected" if now_ns - last_ns <= quiet_ns else "quiet"


def _heard(last_ns: int | None, now_ns: int) -> str:
    return "nothing was recorded" if last_ns is None else f"last recorded {_ago(last_ns, now_ns)}"


def _ago(then_ns: int, now_ns: int) -> str:
    return "just now" if now_ns - then_ns < NS_PER_S else f"{format_duration((now_ns - then_ns) / NS_PER_S)} ago"
