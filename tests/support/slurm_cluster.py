"""A real Slurm on one host for tests: munged, mariadbd, slurmdbd, slurmctld, some slurmd, in one folder, on ports of
their own, as root. Not a stand-in for Slurm: nothing here imitates it. With `machines` each slurmd has a node of its
own, with control groups by job.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster_machines import Machine, why_no_machines
from waiting import PATIENCE_S, STALLED_S, wait_until

PROGRAMS = (
    "munge",
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sacctmgr",
    "sbatch",
    "sacct",
    "squeue",
    "scancel",
    "scontrol",
    "sinfo",
    "runuser",
)
HOOK = Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "fairlead-prolog.sh"
_MUNGE = Path("/run/munge/munge.socket.2")
NODES = ("n1", "n2", "n3")
USER = "nobody"


def lacking(*, machines: bool = False) -> str | None:
    """Why no cluster can be made here (`machines`: with nodes of their own); None when it can."""
    if os.geteuid() != 0:
        return "only root can start the daemons of a Slurm cluster"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        packages = "slurm-wlm slurmdbd slurm-wlm-mysql-plugin munge mariadb-server"
        return f"no {', '.join(absent)}: apt-get install --no-install-recommends {packages}"
    return why_no_machines() if machines else None


class SlurmCluster:
    """A running cluster. `hooks` is the folder its Prolog and Epilog scripts write to; `machines` are its nodes, where
    they are more than processes."""

    def __init__(self, folder: Path, name: str, nodes: Sequence[str] = NODES, *, machines: bool = False) -> None:
        self.folder = folder
        self.name = name
        self.nodes = tuple(nodes)
        self.machines = {node: Machine(node, folder) for node in nodes} if machines else {}
        self.hooks = folder / "hooks"
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "MYSQL_UNIX_PORT": str(folder / "sql" / "s"),
            "TZ": "UTC",
        }
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []

    def run(self, *command: str, check: bool = True) -> str:
        """What a command of the cluster's prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd="/tmp"
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}\n{self.logs()}")
        return done.stdout.strip()

    def submit(self, script: str, *options: str, user: str = "root") -> str:
        """Submits a job of one shell line; its number."""
        prefix = [] if user == "root" else ["runuser", "-u", user, "--"]
        return self.run(*prefix, "sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}").partition(
            ";"
        )[0]

    def command(self, name: str) -> list[str]:
        """A command as words, which needs nothing of this process's environment."""
        return ["env", f"SLURM_CONF={self.environment['SLURM_CONF']}", "TZ=Pacific/Chatham", str(shutil.which(name))]

    def state(self, job_id: str) -> str:
        """State of a job as the controller knows it."""
        return self.run("squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T", check=False)

    def until(self, what: Callable[[], bool], stalled_s: float = STALLED_S) -> None:
        """Waits until something holds."""
        wait_until(what, lambda: f"Slurm\n{self.logs()}", stalled_s=stalled_s)

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        texts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-15:]
            texts.append("\n".join([f"== {path.name}", *lines]))
        return "\n".join(texts)

    def up(self) -> None:
        """Starts everything and waits until nodes are idle."""
        self._written()
        self._munge()
        self._database()
        self._start("slurmdbd", "slurmdbd", "-D")
        self.until(
            lambda: f"{self.name} already" in self._answers("sacctmgr", "--immediate", "add", "cluster", self.name)
        )
        self._start("slurmctld", "slurmctld", "-D")
        self.until(lambda: self._answers("scontrol", "ping").find("UP") > 0)
        for node in self.nodes:
            command: tuple[str, ...] = ("slurmd", "-D", "-N", node)
            if machine := self.machines.get(node):
                machine.start()
                command = tuple(machine.command(*command))
            self._start(f"slurmd-{node}", *command)
        self.until(lambda: self._answers("sinfo", "--noheader", "--states=idle", "--format=%D") == str(len(self.nodes)))

    def down(self) -> None:
        """Ends everything that was started here, jobs first, then daemons, last first."""
        with suppress(AssertionError, RuntimeError, subprocess.TimeoutExpired):
            for user in ("root", USER):
                self._answers("scancel", f"--user={user}")
            self.until(lambda: not self._answers("squeue", "--noheader"), 15)
        for _, child in reversed(self._children):
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for machine in self.machines.values():
            machine.stop()

    def _answers(self, *command: str) -> str:
        return self.run(*command, check=False)

    def _start(self, log: str, *command: str) -> None:
        with (self.folder / f"{log}.log").open("ab") as out:
            child = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/tmp",
                start_new_session=True,
            )
        self._children.append((log, child))

    def _munge(self) -> None:
        """The machine's munged where one runs, else one of our own where Slurm's commands look for it."""
        if _MUNGE.exists() and self._answers("munge", "--no-input").startswith("MUNGE"):
            return
        place = self.folder / "munge"
        place.mkdir(mode=0o755)
        key = place / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        _MUNGE.parent.mkdir(mode=0o755, exist_ok=True)
        self._start(
            "munged",
            "munged",
            "--foreground",
            "--force",
            f"--socket={_MUNGE}",
            f"--key-file={key}",
            f"--pid-file={place}/pid",
            f"--log-file={place}/log",
            f"--seed-file={place}/seed",
            "--num-threads=4",
        )
        self.until(lambda: self._answers("munge", "--no-input").startswith("MUNGE"))

    def _database(self) -> None:
        data = self.folder / "db"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        self.run(
            "mariadb-install-db",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={data}",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
        )
        # The socket lies where user mysql may make it.
        place = self.folder / "sql"
        place.mkdir()
        shutil.chown(place, "mysql", "mysql")
        self._start(
            "mariadbd",
            "mariadbd",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={data}",
            f"--socket={place}/s",
            "--skip-networking",
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",
            f"--pid-file={place}/pid",
            "--innodb-flush-log-at-trx-commit=0",
        )
        sql = "CREATE USER slurm@localhost IDENTIFIED BY 'x'; GRANT ALL ON *.* TO slurm@localhost; SELECT 'made'"
        command = ("mariadb", "--no-defaults", f"--socket={place}/s", "--user=root", "--batch", f"--execute={sql}")
        self.until(lambda: "made" in self._answers(*command))

    def _written(self) -> None:
        self.hooks.mkdir()
        hook = self.folder / "hook.sh"
        hook.write_text(f"#!/bin/sh\nFAIRLEAD_HOOKS={self.hooks} exec {HOOK}\n")
        hook.chmod(0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        ports = _free_ports(len(self.nodes) + 3)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={node if self.machines else host} NodeAddr=127.0.0.1 Port={port}"
            " CPUs=4 RealMemory=500"
            for node, port in zip(self.nodes, ports, strict=False)
        )
        if self.machines:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        tracking = "proctrack/cgroup" if self.machines else "proctrack/linuxproc"
        (self.folder / "slurm.conf").write_text(f"""\
ClusterName={self.name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
SlurmctldPort={ports[-1]}
SlurmdPort={ports[-2]}
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ProctrackType={tracking}
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=requeue_delay=1,bf_interval=2,sched_interval=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[-3]}
JobRequeue=1
PrologSlurmctld={hook}
EpilogSlurmctld={hook}
MinJobAge=36000
KillWait=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes={",".join(self.nodes)} Default=YES MaxTime=60 State=UP
""")
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(f"""\
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[-3]}
SlurmUser=root
DebugLevel=info
PidFile={self.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
""")
        conf.chmod(0o600)


def _free_ports(count: int) -> list[int]:
    with_ports = [socket.socket() for _ in range(count)]
    try:
        for one in with_ports:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in with_ports]
    finally:
        for one in with_ports:
            one.close()


@contextmanager
def slurm_cluster(
    name: str = "mini", nodes: Sequence[str] = NODES, *, machines: bool = False
) -> Iterator[SlurmCluster]:
    """A cluster that is up, and gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-slurm-", dir="/tmp"))
    folder.chmod(0o755)  # other users' commands read the configuration
    cluster = SlurmCluster(folder, name, nodes, machines=machines)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
