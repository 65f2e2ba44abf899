"""`--check`: what each probe finds on this node, what it lacks, and whether the collector would take its records."""

import os
from typing import Callable, Dict, List, Tuple

from fairlead.core.batches.spool import Spool, read_spool_clock_ns
from fairlead.see.agent import probe_names
from fairlead.see.agent.connection import SendError
from fairlead.see.agent.probe_thread import MISSING, OK, Crew, Outcome
from fairlead.see.agent.settings import SettingError, Settings
from fairlead.see.probes.base import Probe

PARTIAL, CONFIG = 4, 5
"""Exit codes: something that was asked for is not there; the settings cannot be used."""
_LONGEST_S = 30.0


def run_self_check(settings: Settings, say: Callable[[str], object]) -> int:
    """Says it, a line each; returns the exit code."""
    try:
        probes = probe_names.make_named_probes(settings.probes, settings.root, settings.node, settings.probe)
    except SettingError as fault:
        say("settings           {}\n".format(fault))
        return CONFIG
    say("node               {}\n".format(settings.node))
    good, wanted = True, probe_names.list_named_probes(settings.probes)
    for outcome in _looked(probes):
        asked_for = outcome.name in wanted
        good = good and (outcome.state == OK or (outcome.state == MISSING and not asked_for))
        say("{:<18} {:<8} {}\n".format(outcome.name, outcome.state, _story(outcome)))
    good = _spools(settings, say) and good
    good = _server(settings, say) and good
    return 0 if good else PARTIAL


def _looked(probes: "List[Tuple[str, Probe]]") -> List[Outcome]:
    """One look by each probe, in the order of the table. Those that hang are told as late."""
    import select
    import time

    def mono() -> int:
        return int(time.monotonic() * 1e9)

    crew = Crew(mono, read_spool_clock_ns)
    for name, probe in probes:
        crew.start(name, probe)
    found: Dict[str, Outcome] = {}
    until = mono() + int(_LONGEST_S * 1e9)
    while len(found) < len(probes) and mono() < until:
        deadline = crew.compute_deadline_ns() or mono() + 10**8
        select.select([crew.wake_fd], [], [], min(max(deadline - mono(), 0) / 1e9 + 0.001, 0.25))
        for outcome in crew.collect(mono()):
            found.setdefault(outcome.name, outcome)
    return [found.get(name) or Outcome(name, "late", None, "no time for it", 0, 0, 0) for name, _ in probes]


def _story(outcome: Outcome) -> str:
    if outcome.found is None:
        return outcome.text
    readings = outcome.found.readings
    parts = ["{} {}".format(len(one.rows), one.table) for one in readings if one.rows]
    parts += ["{} events".format(len(outcome.found.events))] if outcome.found.events else []
    unknown = sum(one.unknown for one in readings)
    if unknown:
        example = next((one.unknown_example for one in readings if one.unknown_example), "")
        parts.append("{} lines not understood ({})".format(unknown, example[:60]))
    return "{} in {:.1f} ms".format(", ".join(parts) or "nothing yet", outcome.busy_ns / 1e6)


def _spools(settings: Settings, say: Callable[[str], object]) -> bool:
    good = True
    try:
        Spool(settings.spool, node=settings.node, writer="check", layer="agent", max_bytes=settings.spool_bytes)
        say("spool              ok       {}\n".format(settings.spool))
    except OSError as fault:
        good = False
        say("spool              failing  {}: {}\n".format(settings.spool, fault.strerror or fault))
    for folder in settings.spools:
        there = os.path.isdir(folder) and os.access(folder, os.R_OK | os.W_OK | os.X_OK)
        good = good and there
        why = "" if there else ": not a directory this user can read and write"
        say("spools             {:<8} {}{}\n".format(OK if there else MISSING, folder, why))
    return good


def _server(settings: Settings, say: Callable[[str], object]) -> bool:
    """An empty body costs the collector nothing and shows whether it takes the token (its 400 means it would)."""
    if not settings.server:
        say("server             none     records stay in the spool: give --server and --token\n")
        return True
    from fairlead.see.agent.connection import build_agent_connection

    line = build_agent_connection(settings)
    state, text = OK, settings.server
    if settings.server.startswith("http://") and not settings.server[7:].startswith(("localhost", "127.", "[::1]")):
        say("server             note     the token is sent unencrypted: use https\n")
    try:
        mode = os.stat(settings.token).st_mode
        if mode & 0o077:
            say("token              note     others can read {0}: chmod 600 {0}\n".format(settings.token))
        ping = line.get("/v1/ping")
        if ping.status != 200:
            state, text = "failing", "{}: GET /v1/ping returned {}".format(settings.server, ping.status)
        else:
            text += " version {}".format(ping.body.get("version", "unknown"))
            answer = line.post((), 0)
            if answer.status in (401, 403):
                state, text = "failing", "{}: {} {}".format(settings.server, answer.status, answer.said)
            elif answer.offset_ns is not None:
                text += ", clock {:+.3f} s".format(answer.offset_ns / 1e9)
    except (SendError, OSError) as fault:
        state, text = "failing", str(fault)
    finally:
        line.close()
    say("server             {:<8} {}\n".format(state, text))
    return state == OK
