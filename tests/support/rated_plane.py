"""A plane at work for tests of diagnosis: real forwarders, mounts and processes, real records, one fault at a time.

A victim's application runs several times undisturbed, then in scenes (`SCENES`) beside innocent jobs; the records that
mounts and forwarders spooled go into a lake, the loop of analysis looks at it, and `verdict` reads what was found about
the victim. Devices are rated (`rated_forwarders`): their speed is what is short, not this machine's. Not here: how many
runs make a table (`benchmarks/real_plane.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Literal

import msgspec

import rated_forwarders
import rated_jobs
from fairlead.core.clock import monotonic_s, now_ns, sleep_s
from fairlead.core.model.finding_incident_rows import StoredFinding, parse_finding_rows
from fairlead.core.model.tables import JOBS, build_table_batch
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.ended_jobs import LAG_NS, summarise_ended_jobs
from fairlead.explain.diagnosing.health_round import run_health_round
from fairlead.explain.diagnosing.site_file import read_system_site_file, write_site_file_mappings
from fairlead.kit.demo.child_processes import Child, Children
from fairlead.kit.demo.device import write_device_pace
from fairlead.kit.demo.stage import READY_S, build_stage_command, unmount_stage_folder
from fairlead.see.ingest import find_ingest_traces, ingest_jobs
from fairlead.steer.fs.fuse.mount_table import find_in_mount_table
from fairlead.store.lake import Lake
from fairlead.store.rollups import derive_rollups
from rated_forwarders import METADATA, make_devices

Scene = Literal["slow target", "N-1 neighbour", "metadata neighbour", "nothing"]
SCENES: tuple[Scene, ...] = ("slow target", "N-1 neighbour", "metadata neighbour", "nothing")
TARGETS = ("t0", "t1", "t2", "t3")
FORWARDERS = ("f0", "f1")
NODES = {"n0": "f0", "n1": "f0", "n2": "f0", "n3": "f1"}
"""Mounts, each as a node's, and the forwarder it goes through: the victim's is n0."""
KIB, MIB = 1 << 10, 1 << 20
RATE = 8 * MIB
"""Bytes a second of a target."""
CHANGES = 400.0
"""Changes of metadata a second."""
TIMES_SLOWER = 4.0
"""A target slowed to 25 %."""
AMOUNT = 48 * MIB
"""Bytes each of the victim's four ranks writes: six seconds of a target."""
RANKS = 4
DISTURBED_S = 13.0
SETTINGS = Diagnosis(least_minutes=1 / 6)
"""Defaults of the product, but for how long an incident must last: runs here are of seconds."""
_LEAD_S = 1.5
_SPOOLED_S = 6.5
"""Mounts and forwarders put their records into files every five seconds."""
_GRACE_S = 90.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was run. Times are of the wall clock."""

    job_id: str
    user: str
    program: str
    processes: int
    start_ns: int
    end_ns: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was told of one scene: of the victim (`rule`, `category`, `culprits` as `kind:id`, `cost_s`), of other jobs
    and of components (`others`: titles of findings that accuse somebody else than who was to blame). `looked_s`: what
    taking the records in and looking at them took, without waiting for them."""

    scene: Scene
    target: str | None
    job: str
    seconds: float
    usual_s: float | None
    rule: str | None
    category: str | None
    culprits: list[str]
    cost_s: float | None
    confidence: float | None
    others: list[str]
    right: bool
    looked_s: float = 0.0


class Plane:
    """Places and processes of one plane. See `plane`. `amount`: bytes each rank of the victim writes; `disturbed_s`:
    how long neighbours disturb it."""

    def __init__(
        self, root: Path, *, fuse: bool, seed: int, amount: int = AMOUNT, disturbed_s: float = DISTURBED_S
    ) -> None:
        self.root, self.fuse = root, fuse
        self.amount, self.disturbed_s = amount, disturbed_s
        self.random = Random(seed)
        self.spool, self.logs, self.lake_root = root / "spool", root / "logs", root / "lake"
        self._sockets = Path(tempfile.mkdtemp(prefix="fairlead-"))
        for folder in (self.spool, self.logs, root / "tree", *(root / name for name in TARGETS)):
            folder.mkdir()
        self.children = Children(self.logs)
        self.lake = Lake.open(self.lake_root, create=True)
        self.site = root / "site.toml"
        self._last = 5000
        self._cleared = False
        self._taken: set[Path] = set()

    def address(self, name: str) -> str:
        """Where a server listens."""
        return f"unix:{self._sockets}/{name}"

    def folder(self, node: str) -> str:
        """The tree as a program on a node sees it: below its mount, or of the forwarder, where there is no FUSE."""
        return str(self.root / f"mount-{node}") if self.fuse else ""

    def build(self) -> None:
        """Starts everything; returns when jobs may run."""
        self.slow(None)
        make_devices(self.root / "devices", len(TARGETS) + 1)
        service = self.children.start(
            "metadata",
            [
                *build_stage_command("fairlead"),
                "tree",
                "serve-metadata",
                "--store",
                str(self.root / "tree"),
                "--listen",
                self.address("metadata"),
            ],
        )
        service.wait_for("serving", READY_S)
        described = [f'[[targets]]\nname = "{name}"\npath = "{self.root / name}"\n' for name in TARGETS]
        text = [f'[metadata]\nservice = "{self.address("metadata")}"\n', *described, "[layout]\nstripe_count = 1\n"]
        (self.root / "targets.toml").write_text("\n".join(text), encoding="utf-8")
        self.site.write_text(SITE, encoding="utf-8")
        for name in FORWARDERS:  # one after the other: the first marks the targets as this tree's
            self._forwarder(name).wait_for("ready", READY_S)
        mounts = [self._mount(node, home) for node, home in NODES.items()] if self.fuse else []
        for child in mounts:
            child.wait_for("mounted on", READY_S)
        if self.fuse:  # a file of many writers lies on all targets
            wide = Path(self.folder("n0"), "wide")
            wide.mkdir()
            os.setxattr(wide, "user.fairlead.layout", f"count={len(TARGETS)}".encode())
        with self.lake.open_writer("site") as writer:
            write_site_file_mappings(writer, str(self.site))

    def _forwarder(self, name: str) -> Child:
        return self.children.start(
            name,
            [
                sys.executable,
                rated_forwarders.__file__,
                "--targets",
                str(self.root / "targets.toml"),
                "--listen",
                self.address(name),
                "--name",
                name,
                "--spool",
                str(self.spool),
                "--pace",
                str(self.root / "pace.json"),
                "--devices",
                str(self.root / "devices"),
                "--bytes-per-s",
                str(RATE),
                "--changes-per-s",
                str(CHANGES),
            ],
        )

    def _mount(self, node: str, home: str) -> Child:
        folder = Path(self.folder(node))
        folder.mkdir()
        words = ["mount", "--foreground", "--spool", str(self.spool), self.address(home), str(folder)]
        # Told to end, it takes the mount off itself; killed, it could not.
        return self.children.start(f"mount-{node}", [*build_stage_command("fairlead"), *words], dies_by=signal.SIGTERM)

    def slow(self, target: str | None) -> None:
        """Lets a target's device serve at a quarter of its rate from now on, the others as ever."""
        pace = {name: TIMES_SLOWER if name == target else 1.0 for name in (*TARGETS, METADATA)}
        write_device_pace(self.root / "pace.json", pace)

    def clear(self) -> None:
        """Ends every process and takes off every mount."""
        self._cleared = True
        self.children.end_all()
        for node in NODES:
            folder = Path(self.folder(node))
            if self.fuse and find_in_mount_table(str(folder)) is not None:
                unmount_stage_folder(folder)
        shutil.rmtree(self._sockets, ignore_errors=True)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _start(
        self, kind: str, node: str, user: str, processes: int, start_ns: int, **words: object
    ) -> tuple[Run, list[Child]]:
        """Starts a job's processes; the run still without an end."""
        self._last += 1
        job = str(self._last)
        children = []
        place = self.folder(node) + ("/wide" if self.fuse and kind == "shared" else "")
        for rank in range(processes):
            command = [
                sys.executable,
                rated_jobs.__file__,
                kind,
                place,
                f"{kind}.{job}",
                "--rank",
                str(rank),
                "--ranks",
                str(processes),
                "--start-ns",
                str(start_ns),
                "--seed",
                str(self.random.randrange(1 << 30)),
            ]
            for name, value in words.items():
                command += [f"--{name.replace('_', '-')}", str(value)]
            if not self.fuse:
                command += ["--client", self.address(NODES[node]), "--spool", str(self.spool)]
            env = {"SLURM_JOB_ID": job, "SLURM_PROCID": str(rank), "SLURM_NTASKS": str(processes)}
            children.append(self.children.start(f"job-{job}-{rank}", command, env=env))
        run = Run(job_id=job, user=user, program=kind, processes=processes, start_ns=start_ns, end_ns=0)
        return run, children

    def quiet_run(self) -> Run:
        """The victim's application beside innocent jobs, and nothing else."""
        return self.scene("nothing", None)[0]

    def scene(self, scene: Scene, target: str | None) -> tuple[Run, str | None]:
        """The victim's application in a scene; it, and the job of the guilty neighbour."""
        start = now_ns() + int(_LEAD_S * 1e9)
        begins = start + int(1.0e9)
        if scene == "slow target":
            self.slow(target)
        until = begins + int(self.disturbed_s * 1e9)
        short = begins + int(self.amount / RATE * 1.2e9)
        innocent = until if scene in ("N-1 neighbour", "metadata neighbour") else short
        running = [
            self._start("names", "n2", "carol", 1, start, until_ns=innocent, rest=0.05),
            self._start("shared", "n3", "dora", 2, start, until_ns=innocent, rest=0.2, piece=64 * KIB),
        ]
        guilty = None
        if scene == "N-1 neighbour":
            guilty = self._start("shared", "n1", "bob", 4, start, until_ns=until, threads=8, piece=256 * KIB)
        elif scene == "metadata neighbour":
            guilty = self._start("names", "n1", "bob", 2, start, until_ns=until, threads=32)
        running += [guilty] if guilty is not None else []
        victim = self._start("solver", "n0", "alice", RANKS, begins, amount=self.amount)
        ended = [self._ended(*one) for one in (victim, *running)]
        self.slow(None)
        self._account(ended)
        return ended[0], guilty[0].job_id if guilty is not None else None

    def _ended(self, run: Run, children: Sequence[Child]) -> Run:
        for child in children:
            if not child.wait_for_end(_GRACE_S) or child.reap():
                raise child.build_death_error("a job ran")
        return msgspec.structs.replace(run, end_ns=now_ns())

    def _account(self, runs: Sequence[Run]) -> None:
        """Rows of `jobs`, as a scheduler's accounting gives them, in whole seconds."""
        columns: dict[str, object] = {
            name: [getattr(run, name) for run in runs] for name in ("job_id", "user", "program", "processes")
        }
        columns |= {
            "name": [run.program for run in runs],
            "state": ["COMPLETED"] * len(runs),
            "start_ns": [run.start_ns // NS_PER_S * NS_PER_S for run in runs],
            "end_ns": [-(-run.end_ns // NS_PER_S) * NS_PER_S for run in runs],
            "nodes": [[socket.gethostname()] for _ in runs],
            "nodes_count": [1] * len(runs),
        }
        with self.lake.open_writer("jobs", derive=derive_rollups) as writer:
            batch = writer.open_batch(f"accounting/{runs[0].job_id}", source="jobs")
            batch.add(build_table_batch(JOBS, columns, len(runs)))
            batch.commit()

    # -- what the product makes of it ---------------------------------------------------------------------------------

    def look(self) -> float:
        """Waits until what has happened is spooled (all is, where the plane was cleared), takes it into the lake, and
        looks at it as the loop does: at the components, then at the jobs that ended. Returns the seconds it took after
        waiting."""
        sleep_s(1.0 if self._cleared else _SPOOLED_S)
        begun = monotonic_s()
        self._take()
        peaks = read_system_site_file(str(self.site)).peaks
        with self.lake.open_writer("analysis", derive=derive_rollups) as writer:
            now = now_ns()
            run_health_round(self.lake, writer, now, SETTINGS, peaks)
            # No more is coming: jobs are due that would wait for what may come late.
            while summarise_ended_jobs(self.lake, writer, now + LAG_NS, diagnosis=SETTINGS, peaks=peaks).more:
                pass
        return monotonic_s() - begun

    def _take(self) -> None:
        """As `fairlead ingest` of the spool."""
        files = {path for path in self.spool.rglob("*") if path.is_file() and not path.name.startswith(".")}
        inputs, failed = find_ingest_traces(sorted(files - self._taken))
        self._taken |= files
        with self.lake.open_writer("main", derive=derive_rollups) as writer:
            for outcome in [*ingest_jobs(writer, inputs), *failed]:
                if outcome.error is not None:
                    raise outcome.error

    def told(self, from_ns: int) -> list[StoredFinding]:
        """Findings about times from `from_ns` on that stand."""
        rows = self.lake.query(
            "SELECT detail FROM finding WHERE to_ns >= $from OR to_ns IS NULL"
            " QUALIFY row_number() OVER (PARTITION BY id ORDER BY made_ns DESC) = 1"
            " AND NOT coalesce(withdrawn, false) ORDER BY id",
            {"from": from_ns},
        )
        return parse_finding_rows(rows)


SITE = f"""name = "plane"

[[forwarders]]
nodes = "f[0-1]"
bandwidth_bytes_per_s = {float(RATE * len(TARGETS))}

[[file_systems]]
name = "plane"
kind = "fairlead"

[[file_systems.servers]]
kind = "target"
node = "store"
targets = "t[0-3]"
read_bandwidth_bytes_per_s = {float(RATE)}
write_bandwidth_bytes_per_s = {float(RATE)}
"""
"""What the site's people know: what a target gives, and a forwarder at most."""

ACCUSING = ("job.interference", "job.slow_component", "component.degraded", "component.dead")
"""Rules of findings that name somebody."""


def expected(scene: Scene, target: str | None, guilty: str | None) -> tuple[str | None, str | None]:
    """Category and culprit that are right."""
    return {
        "slow target": ("component", f"target:{target}"),
        "N-1 neighbour": ("n_to_1", f"job:{guilty}"),
        "metadata neighbour": ("high_mdops", f"job:{guilty}"),
        "nothing": (None, None),
    }[scene]


def verdict(
    scene: Scene, target: str | None, guilty: str | None, run: Run, told: Sequence[StoredFinding], usual_s: float | None
) -> Verdict:
    """What the findings say of a scene, and whether that is right: the costliest finding about the victim names whom it
    should by the category it should, and nobody else is accused in it; where nothing was done, nobody is accused at
    all."""
    mine = sorted(
        (one.finding for one in told if one.job_id == run.job_id and one.finding.rule.startswith("job.")),
        key=lambda one: -(one.cost_s or 0.0),
    )
    category, culprit = expected(scene, target, guilty)
    accusing = [one.finding for one in told if one.finding.rule in ACCUSING]
    first = mine[0] if mine else None
    culprits = [f"{who.kind}:{who.id}" for who in first.culprits] if first is not None else []
    if culprit is None:
        right = not accusing
        others = [one.title for one in accusing]
    else:
        named = {f"{who.kind}:{who.id}" for one in mine for who in one.culprits}
        right = first is not None and first.category == category and named == {culprit}
        strangers = [
            one
            for one in accusing
            if {f"{who.kind}:{who.id}" for who in one.culprits} - {culprit}
            or (not one.culprits and f"{one.subject.kind}:{one.subject.id}" != culprit)
        ]
        others = [one.title for one in strangers]
    return Verdict(
        scene=scene,
        target=target,
        job=run.job_id,
        seconds=round((run.end_ns - run.start_ns) / 1e9, 1),
        usual_s=usual_s,
        rule=None if first is None else first.rule,
        category=None if first is None else first.category,
        culprits=culprits,
        cost_s=None if first is None else first.cost_s,
        confidence=None if first is None else first.confidence,
        others=others,
        right=right,
    )


@contextmanager
def plane(
    *, fuse: bool, seed: int, keep: Path | None = None, amount: int = AMOUNT, disturbed_s: float = DISTURBED_S
) -> Iterator[Plane]:
    """A plane, built; at the end nothing of it runs, is mounted or, unless it is to be kept, is on disk."""
    memory = Path("/dev/shm")
    within = keep if keep is not None else memory if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="fairlead-plane-", dir=within))
    made = Plane(root, fuse=fuse, seed=seed, amount=amount, disturbed_s=disturbed_s)
    try:
        made.build()
        yield made
    finally:
        made.clear()
        if keep is None and not any(find_in_mount_table(made.folder(node)) for node in NODES if fuse):
            shutil.rmtree(root, ignore_errors=True)


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """What was told of a plane: `alarms`, titles of findings that accuse somebody in the quiet history (of `quiet`
    runs), and a verdict for each scene."""

    seed: int
    quiet: int
    alarms: list[str]
    verdicts: list[Verdict]


def perform(
    made: Plane, seed: int, quiet: int, scenes: Sequence[Scene], say: Callable[[str], None] = lambda _text: None
) -> Performance:
    """Plays the quiet history, then the scenes in an order drawn from the seed, and judges each."""
    runs = [made.quiet_run() for _ in range(quiet)]
    usual = round(median((run.end_ns - run.start_ns) / 1e9 for run in runs), 1)
    made.look()
    alarms = [one.finding.title for one in made.told(0) if one.finding.rule in ACCUSING]
    say(f"seed {seed}: {quiet} quiet runs of {usual} s")
    order, verdicts = list(scenes), []
    made.random.shuffle(order)
    for scene in order:
        from_ns = now_ns()
        target = made.random.choice(TARGETS) if scene == "slow target" else None
        run, guilty = made.scene(scene, target)
        looked = made.look()
        found = verdict(scene, target, guilty, run, made.told(from_ns), usual)
        verdicts.append(msgspec.structs.replace(found, looked_s=round(looked, 1)))
        say(
            f"seed {seed}: {scene}: {found.category or 'nobody'} {' '.join(found.culprits)}"
            f" {'right' if found.right else 'WRONG'}"
        )
    return Performance(seed=seed, quiet=quiet, alarms=alarms, verdicts=verdicts)
