"""Watching end to end with real processes: `fairlead up`, agents as they are shipped, a mount through a forwarder.

What counters grew by and what a program wrote is what the questions answer, to the byte, by server and by lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fairlead.kit.testing import machine
from fairlead.kit.testing.machine.lustre_tree import MachineTree
from mounting import forwarded_mount, open_folder
from old_interpreter import old_python
from serving import Up, until
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
BASE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
"""Not the interpreter of the environment: the agent has to do without its packages."""
FROM_S, TO_S = 100, 130
"""The stretch of the play that agents see; what was counted before is their base."""
SETTINGS = """
[api]
listen = ["tcp:127.0.0.1:0"]
[carry]
every_s = 1
"""
AGENT = """
ship_s = 0.2
idle_s = 0.2
health_s = 1
{probes}
"""
OSS_PROBES = ("lustre_ost", "lustre_ost_jobs")
MDS_PROBES = ("lustre_mdt", "lustre_mdt_jobs")
MIB = 1 << 20
NODE = os.uname().nodename.partition(".")[0]
"""What mounts and forwarders call this machine in their records: an agent's token is for one node."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A server with its own lake, on free ports."""
    with Up(tmp_path_factory.mktemp("up"), SETTINGS) as up:
        (up.folder / "reader.token").write_text(up.token("reader"))
        (up.folder / "reader.token").chmod(0o600)
        yield up


@pytest.fixture(scope="module")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as one file."""
    output = tmp_path_factory.mktemp("agent") / "fairlead-agent.pyz"
    subprocess.run([sys.executable, str(ROOT / "tools" / "agent.py"), str(output)], check=True, capture_output=True)
    return output


@contextmanager
def agent(up: Up, program: Path, folder: Path, node: str, probes: tuple[str, ...], *more: str) -> Iterator[None]:
    """An agent of `node` under the oldest Python there is; what it says goes to `folder`."""
    folder.mkdir()
    token = folder / "token"
    token.write_text(up.token("agent", node=node))
    token.chmod(0o600)
    settings = folder / "agent.conf"
    settings.write_text(AGENT.format(probes="".join(f"[probe {name}]\nperiod_s = 0.2\n" for name in probes)))
    command = [
        old_python() or str(BASE),
        str(program),
        "--config",
        str(settings),
        "--server",
        f"http://127.0.0.1:{up.port}",
        "--token",
        str(token),
        "--spool",
        str(folder / "spool"),
        "--node",
        node,
        "--probes",
        ",".join(probes),
        *more,
    ]
    with (folder / "said").open("wb") as said:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(PATIENCE_S)
        finally:
            child.kill()
            child.wait()


def both_say(up: Up, figures: Callable[[Any], Any], wanted: object, *words: str) -> None:
    """A command's answer holds these figures, whether it asks the server or the lake; within seconds, when the rows
    are carried to tables."""
    told = json.loads((up.state / "addresses.json").read_text())
    api = told["api"][0].partition(":")[2]
    for where in (
        ("--server", f"http://{api}", "--token", str(up.folder / "reader.token")),
        ("--lake", str(up.lake)),
    ):
        last: list[Any] = []

        def fits(where: tuple[str, ...] = where, last: list[Any] = last) -> bool:
            answer = asked(*words, "--last", "30m", *where)
            last[:] = [None if answer is None else figures(answer)]
            return last[0] == wanted

        assert until(fits), (where, last[0], wanted)


def asked(*words: str) -> Any:
    """What a command prints with --json; an answer of None when nothing is known yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", *words, "--json"], capture_output=True, text=True, env=kept, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else None


def known(up: Up, node: str, probes: tuple[str, ...]) -> bool:
    """Whether every probe of the node has looked at least once, well."""
    rows = up.query("SELECT DISTINCT node, probe FROM health WHERE state = 'ok' AND rows IS NOT NULL")
    return set(probes) <= {row["probe"] for row in rows if row["node"] == node}


def counted(up: Up) -> tuple[int, int, int]:
    """Bytes of targets, of jobs on targets, and operations of jobs on metadata servers that are in the lake."""
    moved = "SELECT source, sum(coalesce(read_bytes, 0) + coalesce(write_bytes, 0))::BIGINT AS n FROM target GROUP BY 1"
    bytes_ = {row["source"]: row["n"] for row in up.query(moved)}
    [ops] = up.query("SELECT coalesce(sum(count), 0)::BIGINT AS n FROM metadata WHERE source = 'job_stats'")
    return (bytes_.get("obdfilter", 0), bytes_.get("job_stats", 0), ops["n"])


def moved_by(rows: Any, names: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Bytes read and written of those rows of an answer that are asked for."""
    return {
        row["id"]: (row["sums"]["read_bytes"] or 0, row["sums"]["write_bytes"] or 0)
        for row in rows
        if row["id"] in names
    }


def sums(table: pa.Table, keys: list[str], columns: list[str]) -> dict[str, tuple[int, ...]]:
    """Of each key (one) the sums of some columns, where any of them is more than zero."""
    made = table.group_by(keys).aggregate([(column, "sum") for column in columns]).to_pylist()
    found = {row[keys[0]]: tuple(int(row[f"{column}_sum"] or 0) for column in columns) for row in made}
    return {key: values for key, values in found.items() if any(values)}


def test_counters_of_servers_become_the_known_sums(server: Up, agent_file: Path, tmp_path: Path) -> None:
    play = machine.play_small_machine(20, TO_S)
    tree = MachineTree(play, tmp_path / "hosts", clients=[])
    tree.advance(FROM_S)
    rows = play.build_tables(FROM_S, TO_S)
    target = rows["target"].filter(pc.equal(rows["target"]["server"], "oss000"))
    whole, by_job = (target.filter(pc.equal(target["source"], source)) for source in ("obdfilter", "job_stats"))
    metadata = rows["metadata"].filter(pc.equal(rows["metadata"]["source"], "job_stats"))
    expected = sums(whole, ["target"], ["read_bytes", "write_bytes"])
    requests = sums(metadata, ["job_id"], ["count"])
    assert len(expected) >= 2
    assert requests
    with ExitStack() as stack:
        for node, probes in (("oss000", OSS_PROBES), ("mds0", MDS_PROBES)):
            root = str(tree.roots[node])
            stack.enter_context(agent(server, agent_file, tmp_path / node, node, probes, "--root", root))
        for node, probes in (("oss000", OSS_PROBES), ("mds0", MDS_PROBES)):
            said = tmp_path / node / "said"
            assert until(lambda n=node, p=probes: known(server, n, p)), said.read_text() + server.said()
        for second in range(FROM_S + 10, TO_S + 1, 10):
            tree.advance(second)
        moved = sum(pc.sum(whole[name]).as_py() for name in ("read_bytes", "write_bytes"))
        wanted = (moved, moved, pc.sum(metadata["count"]).as_py())
        assert until(lambda: counted(server) == wanted), (counted(server), wanted)
    both_say(server, lambda answer: moved_by(answer["targets"], expected), expected, "target", "list")
    one = max(expected, key=lambda name: sum(expected[name]))
    parts = sums(by_job.filter(pc.equal(by_job["target"], one)), ["job_id"], ["read_bytes", "write_bytes"])
    both_say(server, lambda answer: moved_by(answer["who"], parts), parts, "target", "show", one)
    both_say(server, lambda answer: {row["name"]: (row["count"],) for row in answer["jobs"]}, requests, "mds", "show")


@pytest.mark.fuse
def test_what_a_mount_recorded_arrives_whole(server: Up, agent_file: Path, tmp_path: Path) -> None:
    with open_folder() as state:
        spool, export, folder = state / "spool", state / "export", state / "mnt"
        for one in (spool, export, folder):
            one.mkdir()
        with (
            agent(server, agent_file, tmp_path / "client", NODE, ("disks",), "--spools", str(spool)),
            forwarded_mount(
                export, folder, "--spool", spool, "--job", "4711", state=state, forwarder_options=("--spool", spool)
            ),
        ):
            with (folder / "result").open("wb", buffering=0) as file:
                for _ in range(8):
                    assert file.write(b"x" * MIB) == MIB
            with (folder / "result").open("rb", buffering=0) as file:
                assert file.read(MIB) == b"x" * MIB
        # Both have ended: their last files are finished. The agent that is still to come sends what is left.
        with agent(server, agent_file, tmp_path / "later", NODE, ("disks",), "--spools", str(spool)):
            whole = "SELECT coalesce(sum(size * count), 0)::BIGINT AS n FROM ops WHERE job_id = '4711' AND op = 'write'"
            assert until(lambda: server.query(whole)[0]["n"] == 8 * MIB), server.said()
            assert until(lambda: not list(spool.rglob("*.batch"))), list(spool.rglob("*"))

    def figures(answer: Any) -> tuple[Any, ...]:
        forwarded = [part["sums"]["write_bytes"] or 0 for part in answer["components"] if part["layer"] == "forwarder"]
        job = answer["job"]
        return (job["layer"], job["sums"]["write_bytes"], job["sums"]["read_bytes"], sum(forwarded))

    both_say(server, figures, ("mount", 8 * MIB, MIB, 8 * MIB), "job", "show", "4711")
