"""Alerts while the server runs: looks at what diagnosis wrote, decides what is told, and sends it, a thread a route.

A thread of the analysis process; what fails here ends neither it nor another route. Not here: what is told (`alerts`).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from fairlead.core import clock
from fairlead.core.errors import FairleadError
from fairlead.core.model.tables import FINDING, INCIDENT, build_empty_table
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.advice import AdviceSet
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.show.alerts import digest
from fairlead.show.alerts.alert_evaluation import Look, evaluate_alert_concerns
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.alert_subject import (
    Concern,
    JobFacts,
    build_finding_subjects,
    build_incident_subjects,
    list_subject_jobs,
)
from fairlead.show.alerts.route_sender import Sender
from fairlead.show.alerts.state import State

FIRST_NS = 3600 * 10**9
"""Where nothing was looked at before, what was made in the last hour is new."""
OVERLAP_NS = 900 * 10**9
"""Rows may be seen so long after they say they were made."""
_SEND_S = 1.0
_FORGET_NS = 86400 * 10**9
_AFTER_FAULT_S = 10.0
_MADE = "made"
_FORGOT = "forgot"

log = logging.getLogger("fairlead.show.alerts")


class LakeReader(Protocol):
    """What is asked of a lake."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Rows of one SELECT."""
        ...


def start_alert_loop(config: Any, stop: threading.Event) -> list[threading.Thread]:
    """Starts looking and sending, in threads that end with `stop`; none when nothing is to be told."""
    alerts: Alerts = config.alerts
    if not (alerts.on and alerts.routes and (alerts.rules or alerts.digest or alerts.subscriptions)):
        return []
    folder = Path(config.server.state)

    def looking() -> None:
        from fairlead.store.lake import Lake

        lake = Lake.open(Path(config.server.lake), memory=config.server.memory)
        advice = load_advice_set()
        with State(folder) as state:
            while not stop.wait(alerts.every_s):
                run_alert_step(lake, state, alerts, advice, clock.now_ns())

    def sending(route: str) -> None:
        sender = Sender(folder, alerts, route, clock.now_ns)
        with State(folder) as state:
            while not stop.wait(_SEND_S):
                sender.send_due(state)

    works: list[tuple[str, Callable[[], None]]] = [("looking", looking)]
    works += [(f"route {route}", lambda route=route: sending(route)) for route in alerts.routes]  # type: ignore[misc]
    threads = [
        threading.Thread(target=_kept, args=(name, work, stop), name=f"alerts {name}", daemon=True)
        for name, work in works
    ]
    for thread in threads:
        thread.start()
    return threads


def _kept(name: str, work: Callable[[], None], stop: threading.Event) -> None:
    """Runs `work` again after a fault, until `stop`."""
    while not stop.is_set():
        try:
            work()
        except (FairleadError, OSError, sqlite3.Error) as fault:
            log.warning("%s", escape_text(f"alerts, {name}: {fault}; retrying"))
        except Exception:
            log.exception("alerts, %s: a bug in fairlead; retrying", name)
        stop.wait(_AFTER_FAULT_S)


def run_alert_step(lake: LakeReader, state: State, alerts: Alerts, advice: AdviceSet, now_ns: int) -> Look:
    """One look at what is new in the lake, at what is not over, and at whether a digest is due. Raises LakeError."""
    mark = state.mark(_MADE)
    since_ns = now_ns - FIRST_NS if mark is None else mark - OVERLAP_NS
    concerns = _read_new_concerns(lake, state, advice, since_ns)
    found = evaluate_alert_concerns(state, alerts, concerns, now_ns)
    newest = max([mark or since_ns, *(one.made_ns for one in concerns)])
    with state.change():
        state.set_mark(_MADE, min(newest, now_ns) if mark is None else max(mark, min(newest, now_ns)))
    digest.enqueue_due_digests(state, alerts, now_ns)
    forgot = state.mark(_FORGOT)
    if forgot is None or now_ns >= forgot + _FORGET_NS:
        state.forget(now_ns - round(alerts.keep_days * 86400 * 1e9))
        with state.change():
            state.set_mark(_FORGOT, now_ns)
    return found


_NEW = """
SELECT id, made_ns FROM {table} WHERE made_ns >= $since
QUALIFY row_number() OVER (PARTITION BY id ORDER BY analysis_version DESC, made_ns DESC) = 1
"""
_ROWS = """
SELECT {columns} FROM {table} WHERE made_ns >= $since AND id IN (SELECT unnest($names))
QUALIFY row_number() OVER (PARTITION BY id ORDER BY analysis_version DESC, made_ns DESC) = 1
ORDER BY from_ns, id
"""
_JOBS = """
SELECT job_id, program, coalesce(nodes_count, len(nodes)) AS nodes FROM jobs WHERE job_id IN (SELECT unnest($names))
QUALIFY row_number() OVER (PARTITION BY job_id ORDER BY start_ns DESC) = 1
"""


def _read_new_concerns(lake: LakeReader, state: State, advice: AdviceSet, since_ns: int) -> list[Concern]:
    """What was made since then and is not known in this form. Raises LakeError."""
    findings = _new_rows(lake, state, "finding", "detail, made_ns, withdrawn, job_id", since_ns)
    incidents = _new_rows(lake, state, "incident", "detail, made_ns, withdrawn", since_ns)
    if not findings.num_rows + incidents.num_rows:
        return []
    facts = _facts(lake, list_subject_jobs(findings, incidents))
    return [*build_incident_subjects(incidents, facts, advice), *build_finding_subjects(findings, facts)]


def _new_rows(lake: LakeReader, state: State, table: str, columns: str, since_ns: int) -> pa.Table:
    seen = lake.query(_NEW.format(table=table), {"since": since_ns}).to_pylist()
    known = state.find_made_ns(row["id"] for row in seen)
    names = [row["id"] for row in seen if known.get(row["id"], -1) < row["made_ns"]]
    if not names:
        return build_empty_table(FINDING if table == "finding" else INCIDENT)
    return lake.query(_ROWS.format(table=table, columns=columns), {"since": since_ns, "names": names})


def _facts(lake: LakeReader, names: Sequence[str]) -> dict[str, JobFacts]:
    if not names:
        return {}
    found = lake.query(_JOBS, {"names": list(names)}).to_pylist()
    return {row["job_id"]: JobFacts(row["program"], row["nodes"]) for row in found}
