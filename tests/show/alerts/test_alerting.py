"""Alerts end to end: rows of a lake become mail; killed senders; subscriptions by the API; a real Alertmanager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_server import certificate
from alert_receivers import MailSink, WebSink
from fairlead.core.access.tokens import Claims, issue_token, read_token_key
from fairlead.core.model.finding import Evidence, Finding, Subject
from fairlead.core.model.finding_incident_rows import StoredFinding, build_finding_rows, build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import JOBS, build_table_batch
from fairlead.explain.rules.advice_set import load_advice_set
from fairlead.run.alert_loop import OVERLAP_NS, run_alert_step
from fairlead.show.alerts.alert_settings import AlertApi, AlertRule, Alerts, Webhook
from fairlead.show.alerts.route_sender import Sender
from fairlead.show.alerts.state import State
from fairlead.store.lake import Lake
from serving import Up
from waiting import PATIENCE_S, wait_until

S = 10**9
H = 3600 * S
NOW = 1_700_000_000 * S


def told(name: str, job: str, user: str, at_ns: int = NOW) -> StoredFinding:
    finding = Finding(
        id=name,
        rule="job.interference",
        title=f"job {job} lost 300 s",
        subject=Subject("job", job),
        from_ns=at_ns - H,
        to_ns=at_ns,
        severity="high",
        confidence=0.9,
        category="n_to_1",
        evidence=[Evidence(text="waits grew 11x")],
        cost_s=300.0,
        analysis_version="1",
    )
    return StoredFinding(finding=finding, cluster="c", job_id=job, user=user)


def incident(name: str, component: str, *, jobs: list[str], at_ns: int = NOW, to_ns: int | None = None) -> Incident:
    return Incident(
        id=name,
        layer="target",
        component=component,
        from_ns=at_ns - 2 * H,
        to_ns=to_ns,
        kind="degraded",
        share_of_peak=0.2,
        hint="fail_slow",
        confidence=0.9,
        jobs=jobs,
    )


def write(lake: Lake, stream: str, *batches: Any) -> None:
    with lake.open_writer("found") as writer:
        batch = writer.open_batch(stream)
        for rows in batches:
            batch.add(rows)
        batch.commit()


def alerts_of(**changes: Any) -> Alerts:
    base = Alerts(
        routes={"hook": Webhook(url="http://127.0.0.1:9/")},
        group_s=0.0,
        settle_s=0.0,
        rules=[AlertRule(name="large", to=["hook"], wait_h=96.0), AlertRule(name="jobs", to=["hook"], rules=["job.*"])],
    )
    return msgspec.structs.replace(base, **changes)


def test_rows_of_the_lake_are_told_once(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    advice, alerts = load_advice_set(), alerts_of()
    job = build_table_batch(
        JOBS, {"cluster": ["c"], "job_id": ["42"], "start_ns": [NOW], "nodes_count": [2048], "program": ["lammps"]}
    )
    write(
        lake,
        "one",
        job,
        build_finding_rows([told("f1", "42", "alice")], NOW - 60 * S),
        build_incident_rows([incident("i1", "ost3", jobs=["42"]), incident("i2", "ost4", jobs=["7"])], NOW - 60 * S),
        build_finding_rows([told("old", "1", "bob")], NOW - 3 * H),
    )
    with State(tmp_path) as state:
        assert run_alert_step(lake, state, alerts, advice, NOW).added == 2
        assert {one.concern for one in state.list_notices(9)} == {"f1", "i1"}, "i2 hits no large job, and is young"
        found = state.find_concern("f1")
        assert found is not None
        assert (found.program, found.nodes) == ("lammps", 2048)
        assert run_alert_step(lake, state, alerts, advice, NOW + 30 * S).added == 0
        # Written down late, and once more by a later look.
        write(
            lake,
            "two",
            build_finding_rows([told("f2", "43", "bob")], NOW - 60 * S - OVERLAP_NS // 2),
            build_finding_rows([told("f1", "42", "alice")], NOW + 30 * S),
        )
        assert run_alert_step(lake, state, alerts, advice, NOW + 60 * S).added == 1
        over = incident("i1", "ost3", jobs=["42"], to_ns=NOW + 60 * S)
        write(lake, "three", build_incident_rows([over], NOW + 90 * S))
        assert run_alert_step(lake, state, alerts, advice, NOW + 120 * S).added == 1
        assert [one.kind for one in state.list_told("i1")] == ["firing", "resolved"]


_SENDER = """
import sys
from pathlib import Path
from fairlead.core import clock
from fairlead.show.alerts.route_sender import Sender
from fairlead.show.alerts.alert_settings import Alerts, Webhook
from fairlead.show.alerts.state import State
alerts = Alerts(routes={"hook": Webhook(url=sys.argv[2])}, group_s=0.0)
with State(Path(sys.argv[1])) as state:
    Sender(Path(sys.argv[1]), alerts, "hook", clock.now_ns).send_due(state)
"""


def test_a_sender_killed_midway_sends_nothing_confirmed_again_and_loses_nothing(tmp_path: Path) -> None:
    """Three messages; the sender is killed when the receiver has a message and has not yet said so, twice."""
    kills = {0, 2}
    processes: list[subprocess.Popen[bytes]] = []

    def answer(n: int) -> tuple[int, dict[str, str]]:
        if n in kills:
            os.kill(processes[-1].pid, signal.SIGKILL)
            processes[-1].wait()
        return 200, {}

    lake = Lake.open(tmp_path / "lake", create=True)
    with WebSink(answer=answer) as sink, State(tmp_path) as state:
        for n in range(3):
            write(lake, f"s{n}", build_finding_rows([told(f"f{n}", str(n), f"u{n}", NOW)], NOW + n))
            assert run_alert_step(lake, state, alerts_of(), load_advice_set(), NOW + n).added == 1
            command = [sys.executable, "-c", _SENDER, str(tmp_path), sink.url]
            for _ in range(2 if n < 2 else 1):  # the first of two is killed
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
                processes[-1].wait()
        ids = [request.headers["x-fairlead-delivery"] for request in sink.requests]
        named = [request.json["alerts"][0]["id"] for request in sink.requests]
        assert named == ["f0", "f0", "f1", "f1", "f2"], "once more only what was not confirmed"
        assert ids[0] == ids[1]
        assert ids[2] == ids[3]
        assert len(set(ids)) == 3
        assert state.count_notices() == {"hook": {"sent": 3}}


_SETTINGS = """
[api]
on = true
listen = ["tcp:127.0.0.1:0"]
[analysis]
on = true
[alerts]
every_s = 0.2
group_s = 0.0
subscriptions = "ops"
subscribe_domains = ["example.org"]
[alerts.routes.ops]
kind = "mail"
host = "localhost"
port = {port}
ca = "{ca}"
sender = "fairlead@example.org"
to = ["ops@example.org"]
[[alerts.rules]]
name = "jobs"
to = ["ops"]
hold_off_s = 0
"""


def fairlead(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fairlead", *words], capture_output=True, text=True, check=False)


def test_a_server_mails_its_operator_and_a_user_who_subscribed(tmp_path: Path) -> None:
    chain, _ = pair = certificate(tmp_path)
    with MailSink(certificate=pair) as sink, Up(tmp_path, _SETTINGS.format(port=sink.port, ca=chain)) as up:
        api = json.loads((up.state / "addresses.json").read_text())["api"][0].removeprefix("tcp:")
        key = read_token_key(up.state / "server.key")
        tokens = {}
        for user in ("alice", "bob"):
            tokens[user] = tmp_path / f"{user}.token"
            claims = Claims(expires_s=time.time_ns() // S + 3600, role="reader", user=user)
            tokens[user].write_text(issue_token(key, claims))
        at = ("--server", f"http://{api}", "--token", str(tokens["alice"]))
        made = fairlead("alert", "subscribe", "--mine", "--to", "alice@example.org", "--json", *at)
        assert made.returncode == 0, made.stderr
        (mine,) = json.loads(made.stdout)["subscriptions"]
        assert mine["owner"] == "alice"
        for refused in (
            fairlead("alert", "subscribe", "--mine", "--user", "bob", "--to", "alice@example.org", *at),
            fairlead("alert", "subscribe", "--mine", "--to", "alice@elsewhere.org", *at),
            fairlead("alert", "subscriptions", *at[:2]),
        ):
            assert refused.returncode == 8, refused.stderr
            assert "Traceback" not in refused.stderr
        another = fairlead("alert", "unsubscribe", mine["id"], *at[:3], str(tokens["bob"]))
        assert another.returncode == 2, another.stderr
        seen = json.loads(fairlead("alert", "subscriptions", "--json", *at[:3], str(tokens["bob"])).stdout)
        assert seen["subscriptions"] == []
        now_ns = time.time_ns()
        write(
            Lake.open(up.lake),
            "found",
            build_finding_rows([told("f1", "42", "alice", now_ns), told("f2", "43", "bob", now_ns)], now_ns),
        )
        assert sink.wait_for(lambda letters: {one.to[0] for one in letters} == {"ops@example.org", "alice@example.org"})
        hers = next(one for one in sink.letters if one.to == ["alice@example.org"])
        assert hers.encrypted
        assert "job 42" in hers.text
        assert "job 43" not in hers.text
        config = ("--config", str(up.config))
        listed = json.loads(fairlead("alert", "list", "--json", *config).stdout)
        assert {one["id"] for one in listed["notices"]} == {"f1", "f2"}
        assert fairlead("alert", "test", "ops", *config).stdout == "ops: delivered\n"
        silenced = fairlead("alert", "silence", "--match", "job=44", "--for", "1h", "--why", "known", *config)
        assert silenced.returncode == 0, silenced.stderr
        count = len(sink.letters)
        write(
            Lake.open(up.lake),
            "more",
            build_finding_rows([told("f3", "44", "carol", now_ns), told("f4", "45", "carol", now_ns)], now_ns + S),
        )
        assert sink.wait_for(lambda letters: len(letters) > count)
        assert "job 45" in sink.letters[-1].text
        assert "job 44" not in sink.letters[-1].text


@pytest.mark.slow
def test_a_real_alertmanager_takes_alerts_and_their_end(tmp_path: Path) -> None:
    """The program of Debian's package prometheus-alertmanager, named by FAIRLEAD_ALERTMANAGER or in the path."""
    import shutil
    import socket

    program = os.environ.get("FAIRLEAD_ALERTMANAGER") or shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("no Alertmanager (apt-get install prometheus-alertmanager)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    with (tmp_path / "am.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={tmp_path / 'am.yml'}",
                f"--storage.path={tmp_path / 'am'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    url = f"http://127.0.0.1:{port}"

    def active() -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=PATIENCE_S) as answer:  # noqa: S310
            return list(json.load(answer))

    def answers() -> bool:
        try:
            return active() == []
        except OSError:
            return False

    try:
        wait_until(answers, "Alertmanager", process=process)
        now_ns = time.time_ns()
        later = now_ns + S
        lake = Lake.open(tmp_path / "lake", create=True)
        alerts = alerts_of(
            routes={"am": AlertApi(url=url, labels={"cluster": "c1"})},
            rules=[AlertRule(name="all", to=["am"])],
            link="https://fairlead.example.org/{id}",
        )
        evil = "ost3\n\x1b[2J\u202e\x00"
        write(
            lake,
            "one",
            build_incident_rows([incident("i1", evil, jobs=[], at_ns=now_ns)], now_ns),
            build_finding_rows([told("f1", "42", "alice", now_ns)], now_ns),
        )
        with State(tmp_path) as state:
            sender = Sender(tmp_path, alerts, "am", lambda: later)
            run_alert_step(lake, state, alerts, load_advice_set(), now_ns)
            assert sender.send_due(state) == 1
            found = {one["labels"]["id"]: one for one in active()}
            assert set(found) == {"i1", "f1"}
            assert found["i1"]["labels"]["component"] == "ost3\\n\\x1b[2J\\u202e\\x00"
            assert found["i1"]["generatorURL"] == "https://fairlead.example.org/i1"
            assert found["i1"]["annotations"]["severity"] == "high"
            over = incident("i1", evil, jobs=[], at_ns=now_ns, to_ns=now_ns)
            write(lake, "two", build_incident_rows([over], later))
            run_alert_step(lake, state, alerts, load_advice_set(), later)
            assert sender.send_due(state) == 1
            assert {one["labels"]["id"] for one in active()} == {"f1"}
            assert state.count_notices() == {"am": {"sent": 3}}
    finally:
        process.kill()
        process.wait()
