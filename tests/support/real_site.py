"""A small centre on one host for tests, nothing of it imitated: Slurm, a server that watches it, a forwarder, and on
each node an agent and a mount of the same tree at the same path.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from cluster_machines import Machine, open_folder_for_all
from fairlead.cli.main import main
from serving import Up
from slurm_cluster import SlurmCluster, slurm_cluster
from waiting import PATIENCE_S, wait_until

NS = 1_000_000_000
ROOT = Path(__file__).resolve().parents[2]
NODES = ("n1", "n2", "n3", "n4")
SETTINGS = """
[api]
listen = ["tcp:127.0.0.1:0"]
[carry]
every_s = 1
[analysis]
on = true
every_s = 2
[feeds]
state = "{folder}/feeds"
"""
FEED = """
[[feeds.slurm]]
cluster = "{name}"
hooks = "{hooks}"
sacct = {sacct}
squeue = {squeue}
squeue_s = 1
sacct_s = 2
"""
PATIENT_S = 180.0
AGENT = """
ship_s = 0.5
idle_s = 0.5
health_s = 1
"""


@dataclass(frozen=True)
class Figures:
    """What one place says a job moved; None where it says nothing."""

    read_bytes: int | None
    write_bytes: int | None
    metadata_ops: int | None = None

    @classmethod
    def of(cls, sums: Mapping[str, Any] | None) -> Figures | None:
        """Of the `sums` of an answer."""
        if sums is None:
            return None
        return cls(sums["read_bytes"], sums["write_bytes"], sums["metadata_ops"])


@dataclass(frozen=True)
class Run:
    """A run of a job as the scheduler tells of it."""

    state: str
    start_ns: int
    end_ns: int


def interpreters() -> dict[str, str]:
    """Interpreters an agent may meet on a node, by their version: the oldest and the newest, where they are here."""
    found = {}
    for version in ("3.6", "3.13"):
        places = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}"))
        for one in (shutil.which(f"python{version}"), *map(str, places)):
            if one and subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[version] = one
                break
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return found or {here: str(Path(sys.base_prefix) / "bin" / f"python{here}")}


@dataclass
class Site:
    """A running centre. `mounted` is the path of the file system on every node, `tree` what lies behind it."""

    folder: Path
    up: Up
    clusters: dict[str, SlurmCluster]
    tree: Path
    mounted: Path
    results: Path
    """Where jobs write what they say of themselves: not watched."""
    agents: dict[str, str] = field(default_factory=dict)
    """By node, the version of Python its agent runs on."""

    def submit(self, script: str, *options: str, cluster: str = "", user: str = "root") -> str:
        """Submits a job of one shell line; its number."""
        return self._cluster(cluster).submit(script, *options, user=user)

    def ended(self, job_id: str, *, cluster: str = "") -> str:
        """Waits until a job has ended; its state."""
        one = self._cluster(cluster)
        one.until(lambda: one.state(job_id) not in ("", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"))
        return one.state(job_id)

    def _cluster(self, name: str) -> SlurmCluster:
        return self.clusters[name] if name else next(iter(self.clusters.values()))

    def runs(self, job_id: str, *, cluster: str = "") -> list[Run]:
        """The runs of a job number that have ended, as the lake has them from Slurm, the first first."""
        name = cluster or next(iter(self.clusters))
        found = self.up.query("SELECT * FROM jobs WHERE end_ns IS NOT NULL ORDER BY start_ns")
        mine = [row for row in found if row["job_id"] == job_id and row["cluster"] == name]
        return [Run(row["state"], row["start_ns"], row["end_ns"]) for row in mine]

    def asked(self, path: str) -> Any:
        """What the pages are told: the API's answer; None for what it does not know."""
        address = json.loads((self.up.state / "addresses.json").read_text())["api"][0].partition(":")[2]
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.up.token('operator')}"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        return json.loads(body) if answer.status == 200 else None

    def told(self, *words: str) -> Any:
        """What a command says of the lake, with --json; None for what it does not know."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main([*words, "--lake", str(self.up.lake), "--json"])
        return json.loads(out.getvalue()) if code == 0 else None

    def said_everywhere(
        self, *jobs: str, cluster: str = "", runs: Sequence[Run | None] = ()
    ) -> list[dict[str, Figures | None]]:
        """What every place says that each of these jobs moved: the list and the page of a job, from the shell and from
        the API (which the pages show), and the stored summary. Of a list with other than one row for the job: None.
        `runs`: of several runs of one number, which each is about."""
        name = cluster or next(iter(self.clusters))
        lists = {
            "job list": self.told("job", "list", "--last", "2h", "--limit", "1000")["jobs"],
            "api list": self.asked("/api/v1/jobs?last=2h&limit=1000")["jobs"],
        }
        whose = list(runs) or [None] * len(jobs)
        return [self._said_of(job, name, lists, run) for job, run in zip(jobs, whose, strict=True)]

    def _said_of(self, job: str, cluster: str, lists: Mapping[str, Any], run: Run | None) -> dict[str, Figures | None]:
        when, query = list[str](), ""
        if run is not None:
            begin, end = run.start_ns // NS, run.end_ns // NS + 1
            when, query = ["--from", str(begin), "--to", str(end)], f"&from={begin}&to={end}"
        pages = {
            "job show": self.told("job", "show", job, "--cluster", cluster, *when),
            "api job": self.asked(f"/api/v1/jobs/{job}?cluster={cluster}{query}"),
        }
        said: dict[str, Figures | None] = {}
        for place, listed in lists.items():
            rows = [row for row in listed if row["job_id"] == job and row["cluster"] in (cluster, None)]
            rows = [row for row in rows if run is None or row["start_ns"] in (run.start_ns, None)]
            said[place] = Figures.of(rows[0]["sums"]) if len(rows) == 1 and rows[0]["cluster"] == cluster else None
        for place, answer in pages.items():
            said[place] = Figures.of(answer["job"]["sums"]) if answer else None
        summary = (pages["job show"] or {}).get("summary")
        said["summary"] = Figures.of(summary["sums"]) if summary and not summary["so_far"] else None
        return said

    def settled(self, *jobs: str, cluster: str = "") -> None:
        """Waits until these jobs' records have come, and for their summaries to tell of them: a mount writes what it
        recorded every five seconds, and a summary made before is made again. Gives up after `PATIENT_S`: the test then
        says which figure is missing."""
        name = cluster or next(iter(self.clusters))
        told = (
            "SELECT job_id, cluster FROM job_summary WHERE end_ns IS NOT NULL"
            " AND (read_bytes IS NOT NULL OR write_bytes IS NOT NULL)"
        )
        until = time.monotonic() + PATIENT_S
        while time.monotonic() < until:
            if set(jobs) <= {row["job_id"] for row in self.up.query(told) if row["cluster"] == name}:
                return
            time.sleep(0.5)


def _started(
    stack: ExitStack, machine: Machine, words: Sequence[str], said: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    out: IO[bytes] = stack.enter_context(said.open("ab"))
    process = machine.popen(words, out, environment)
    stack.callback(process.wait, PATIENCE_S)
    stack.callback(process.kill)
    return process


def _environment(runtime: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "FAIRLEAD_"))}
    runtime.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "XDG_RUNTIME_DIR": str(runtime), "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def site(folder: Path, *, clusters: Mapping[str, Sequence[str]] | None = None, settings: str = "") -> Iterator[Site]:
    """A centre that is up. `clusters`: nodes by the name of a cluster (default: `mini` of `NODES`)."""
    shape = dict(clusters or {"mini": NODES})
    place = open_folder_for_all("fairlead-site-")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        running = {
            name: stack.enter_context(slurm_cluster(name, nodes, machines=True)) for name, nodes in shape.items()
        }
        feeds = "".join(
            FEED.format(
                name=name,
                hooks=one.hooks,
                sacct=json.dumps(one.command("sacct")),
                squeue=json.dumps(one.command("squeue")),
            )
            for name, one in running.items()
        )
        up = stack.enter_context(Up(folder, SETTINGS.format(folder=folder) + settings + feeds))
        tree, mounted, results = (place / name for name in ("tree", "fs", "results"))
        for one in (tree, mounted, results):
            one.mkdir()
        for one in (tree, results):
            one.chmod(0o1777)
        made = Site(folder, up, running, tree, mounted, results)
        io_node = Machine("io1", place)
        io_node.start()
        stack.callback(io_node.stop)
        program = place / "fairlead-agent.pyz"
        subprocess.run(
            [sys.executable, str(ROOT / "tools" / "agent.py"), str(program)], check=True, capture_output=True
        )
        socket = place / "forwarder.socket"
        _forward(stack, io_node, place, tree, socket)
        pythons = list(interpreters().items())
        nodes = {name: machine for one in running.values() for name, machine in one.machines.items()}
        for number, (name, machine) in enumerate([("io1", io_node), *nodes.items()]):
            version, python = pythons[number % len(pythons)]
            _agent(stack, made, machine, place, python, program)
            made.agents[name] = version
        for name, cluster in running.items():
            for machine in cluster.machines.values():
                _mount(stack, machine, place, socket, mounted, name)
        wait_until(lambda: set(made.agents) <= _known(up), lambda: f"agents: {_known(up)}\n{up.said()}")
        yield made


def _known(up: Up) -> set[str]:
    rows = up.query("SELECT DISTINCT node FROM health WHERE probe = 'jobs' AND state = 'ok'")
    return {str(row["node"]) for row in rows}


def _forward(stack: ExitStack, machine: Machine, place: Path, tree: Path, socket: Path) -> None:
    said = place / "forwarder.said"
    spool = place / "spool-io1"
    spool.mkdir()
    words = [sys.executable, "-m", "fairlead", "forwarder", "run", "--export", str(tree), "--name", "io1"]
    words += ["--listen", f"unix:{socket}", "--spool", str(spool)]
    process = _started(stack, machine, words, said, _environment(place / "run-io1"))
    wait_until(lambda: "ready" in said.read_text(), said.read_text, process=process)


def _mount(stack: ExitStack, machine: Machine, place: Path, socket: Path, mounted: Path, cluster: str) -> None:
    said = place / f"mount-{machine.name}.said"
    spool = place / f"spool-{machine.name}"
    words = [sys.executable, "-m", "fairlead", "mount", f"unix:{socket}", str(mounted), "--foreground"]
    words += ["--spool", str(spool), "--allow-other", *_cluster_option(cluster)]
    process = _started(stack, machine, words, said, _environment(place / f"run-{machine.name}"))
    wait_until(lambda: "mounted on" in said.read_text(), said.read_text, process=process)


def _cluster_option(cluster: str) -> list[str]:
    """`--cluster NAME` where a mount can be told it."""
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "mount", "--help"], capture_output=True, text=True, check=True
    )
    return ["--cluster", cluster] if "--cluster" in done.stdout else []


def _agent(stack: ExitStack, made: Site, machine: Machine, place: Path, python: str, program: Path) -> None:
    name = machine.name
    (place / f"spool-{name}").mkdir(exist_ok=True)
    token, settings = place / f"token-{name}", place / f"agent-{name}.conf"
    token.write_text(made.up.token("agent", node=name))
    token.chmod(0o600)
    settings.write_text(AGENT)
    words = [python, str(program), "--config", str(settings), "--server", f"http://127.0.0.1:{made.up.port}"]
    words += ["--token", str(token), "--spool", str(place / f"agent-{name}"), "--node", name]
    words += ["--spools", str(place / f"spool-{name}"), "--probes", "jobs"]
    _started(stack, machine, words, place / f"agent-{name}.said", _environment(place / f"run-{name}"))
