"""What is played: which job uses which forwarder, which target is slowed and which job disturbs, drawn from a seed.

Pure. *Nothing* is among what may be drawn. The judge never sees this.
"""

from __future__ import annotations

from random import Random

import msgspec

TARGETS = ("t0", "t1", "t2", "t3")
FORWARDERS = ("f0", "f1")
WORKERS = 4
"""Workers of a forwarder: no more than its jobs keep busy without a flood."""
SECONDS = 20.0
TIMES_SLOWER = 6.0
STORM_THREADS = 24


class DemoJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the demo: its number, the program it runs (`demo.jobs`), its processes."""

    job_id: str
    kind: str
    processes: int
    about: str


JOBS = (
    DemoJob(
        job_id="4101",
        kind="checkpoint",
        processes=2,
        about="A checkpoint: each process writes a file of its own (N-N) in pieces of 1 MiB, then computes.",
    ),
    DemoJob(
        job_id="4102",
        kind="shared",
        processes=2,
        about="One file for all (N-1): the processes write and read interleaved pieces of 512 KiB.",
    ),
    DemoJob(
        job_id="4103", kind="metadata", processes=1, about="Small files: create, write 4 KiB, close, stat, remove."
    ),
)


class SlowTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target whose device serves at a lower rate for a while. Seconds count from when the jobs begin."""

    target: str
    from_s: float
    to_s: float
    times: float = TIMES_SLOWER


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """A job that floods its forwarder for a while."""

    job_id: str
    from_s: float
    to_s: float
    threads: int = STORM_THREADS


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One seed's play. `homes`: forwarder of each job."""

    seed: int
    seconds: float
    homes: dict[str, str]
    slowed: SlowTarget | None
    storm: Storm | None

    @property
    def truth(self) -> dict[str, str | None]:
        """The guilty by kind of verdict; None where there is nobody."""
        return {
            "slow_target": self.slowed.target if self.slowed else None,
            "disturber": self.storm.job_id if self.storm else None,
        }


def draw_demo_plan(seed: int, seconds: float = SECONDS) -> Play:
    """The play of a seed. A quarter of all plays has neither fault nor storm, a fifth has both."""
    random = Random(seed)  # noqa: S311 - a play, not a secret
    alone = random.choice(JOBS).job_id
    homes = {job.job_id: FORWARDERS[1] if job.job_id == alone else FORWARDERS[0] for job in JOBS}
    what = random.choices(("nothing", "slow", "storm", "both"), (25, 28, 28, 19))[0]
    first, second = seconds * random.uniform(0.15, 0.25), seconds * random.uniform(0.59, 0.62)
    early, late = (first, first + 0.33 * seconds), (second, second + 0.33 * seconds)
    if random.random() < 0.5:
        early, late = late, early
    slowed = storm = None
    if what in ("slow", "both"):
        slowed = SlowTarget(target=random.choice(TARGETS), from_s=early[0], to_s=early[1])
    if what in ("storm", "both"):
        sharing = [job.job_id for job in JOBS if job.job_id != alone]
        storm = Storm(job_id=random.choice(sharing), from_s=late[0], to_s=late[1])
    return Play(seed=seed, seconds=seconds, homes=homes, slowed=slowed, storm=storm)


def describe_demo_plan(play: Play, begun_s: float = 0.0) -> str:
    """What is injected, in words. `begun_s`: when the jobs began, on the clock the seconds are to be of."""
    parts = []
    if play.slowed is not None:
        one = play.slowed
        parts.append(
            f"From second {begun_s + one.from_s:.0f} to {begun_s + one.to_s:.0f} the device of target {one.target} "
            f"served {one.times:g} times slower."
        )
    if play.storm is not None:
        two = play.storm
        parts.append(
            f"From second {begun_s + two.from_s:.0f} to {begun_s + two.to_s:.0f} job {two.job_id} flooded forwarder "
            f"{play.homes[two.job_id]} from {two.threads} threads."
        )
    return " ".join(parts) or "Nothing: no target was slowed and no job flooded its forwarder."
