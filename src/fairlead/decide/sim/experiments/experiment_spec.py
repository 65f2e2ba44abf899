"""What an experiment is, as a TOML file says it: workload, policies, sharing, window, disturbances, pictures, seed.

Bad specs are refused naming the field. Not here: running it (`cases`), the study's own specs (`scheduling_study`).
"""

from __future__ import annotations

import math
import re
import tomllib
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal, Protocol

import msgspec

from fairlead.core.errors import ConfigError
from fairlead.decide.sim.experiments.replay_spec import (
    AS_IT_WAS,
    MOST_COMPONENTS,
    OwnPast,
    Swf,
    Table,
    check_replay_spec,
)

PAGE = "docs: reference/simulation-spec"
LONGEST_NAME = 100
MOST_SEED = (1 << 63) - 1
MOST_APPLICATIONS = 10_000
MOST = 1e24
"""Bytes, bytes/s, seconds or cores."""
LEAST_LOAD = 1e-6
"""Loads are told apart to the millionth."""
MOST_RUNS = 10_000_000
"""An experiment of more runs than this is a slip of the pen ..."""
MOST_CHANGES = 10_000_000
"""... as are more changes of speed in a set, or phases of its applications."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: keys that it does not know are errors."""


class Application(_Strict, frozen=True, kw_only=True):
    """`[[workload.rows]]`: one application of a workload that is written down."""

    name: str = ""
    """What it is called. Empty: its number."""
    volume_bytes: float
    """Bytes it moves in one round of all its phases."""
    compute_s: float
    """Seconds it computes in that round."""
    cores: float
    """Cores it holds."""
    phases: int = 1
    """Phases of computing and I/O in a round."""
    bandwidth_bytes_per_s: list[float]
    """What it reaches alone on each number of resources in `counts`."""


class PublishedWorkload(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="published"):
    """`[workload]` with `kind = "published"`: sets drawn as the scheduling study draws them."""

    applications: tuple[int, ...] = (30,)
    """Applications of a set (K); each number is a row of points of its own."""
    loads: tuple[float, ...]
    """Load at one resource each (theta), above 0 and below K over resources; each is a point."""
    profiles: Literal["forge", "osts"] = "forge"
    """Curves of bandwidth over resources: FORGE's (forwarders), or the family for 1 to 8 OSTs."""
    statistic: Literal["median", "max", "mean"] = "median"
    """Which of FORGE's repetitions a curve is made of."""


class ListedWorkload(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="applications"):
    """`[workload]` with `kind = "applications"`: one set, written down. Sets differ in when applications begin."""

    counts: list[int]
    """Numbers of resources that can be granted, rising."""
    rows: list[Application]
    """The applications."""


class Machine(_Strict, frozen=True, kw_only=True):
    """`[machine]`"""

    resources: int = 20
    """Forwarders or targets (N)."""
    cores: float = 480.0
    """Cores of the machine (Q_cpu)."""


class Window(_Strict, frozen=True, kw_only=True):
    """`[window]`: what is measured."""

    kind: Literal["steady", "study"] = "steady"
    """`steady`: applications repeat, from `from_s` to `until_s`. `study`: as the scheduling study does, from when each
    has completed a phase until the first ends."""
    from_s: float = 5000.0
    """Where the steady window begins."""
    until_s: float = 30000.0
    """Where it ends; the study's window ends there at the latest."""


class Sharing(_Strict, frozen=True, kw_only=True):
    """`[sharing]`: how applications share a resource."""

    kind: Literal["equal", "exclusive", "set-10"] = "equal"
    """Equal shares, one after the other, or IO-SETS by length of iteration."""


class Noise(_Strict, frozen=True, kw_only=True):
    """`[noise]`: traffic of others, which the policies do not see."""

    share: float = 0.0
    """Mean share of a resource it takes; drawn anew from 0 to twice that."""
    every_s: float = 300.0
    """Seconds after which it is drawn anew, resource by resource."""


class Faults(_Strict, frozen=True, kw_only=True):
    """`[faults]`: resources that fail and come back, which the policies do not see."""

    per_day: float = 0.0
    """Failures a day and resource."""
    lasts_s: float = 600.0
    """Mean length of one."""
    speed: float = 0.0
    """Speed of a failed resource, as a share of a sound one's."""


class Degradation(_Strict, frozen=True, kw_only=True):
    """`[[degraded]]`: one resource is slower for a time."""

    resource: int
    """Which, from 0."""
    speed: float
    """Its speed then, as a share of a sound one's."""
    from_s: float = 0.0
    """Since when."""
    to_s: float | None = None
    """Until when. Left out: to the end."""


class Picture(_Strict, frozen=True, kw_only=True):
    """`[[picture]]`: one chart of the results, one panel a number of applications."""

    title: str
    """What it shows."""
    kind: Literal["lines", "best-counts"] = "lines"
    """Lines over the load, or how many curves are highest at each number of resources."""
    measure: str = "slowdown_mean"
    """Column of the results on the y axis."""
    policies: list[str] = []
    """Which lines. Empty: all of the experiment."""


class Experiment(_Strict, frozen=True, kw_only=True):
    """The whole file."""

    name: str
    """Name of the experiment."""
    title: str = ""
    """What it asks, in a line."""
    source: str = ""
    """Where it is from."""
    note: str = ""
    """What a reader has to know of it."""
    figure: int | None = None
    """Figure of the paper that it makes again."""
    seed: int = 1
    """Seed of everything random."""
    sets: int = 100
    """Sets of applications a point. Of a replay as many replays, 1 where nothing is said."""
    policies: list[str] = []
    """Policies by name."""
    allocations: list[str] = []
    """With `placements`: every pair of the two is a policy."""
    placements: list[str] = []
    """See `allocations`."""
    information: tuple[Literal["exact", "class-mean"], ...] = ("exact",)
    """Curves the policies are given: the true ones, or the mean curve of an application's class of behaviour."""
    workload: PublishedWorkload | ListedWorkload | Swf | Table | OwnPast
    """What runs."""
    machine: Machine = Machine()
    """On what."""
    window: Window = Window()
    """What is measured."""
    sharing: Sharing = Sharing()
    """How resources are shared."""
    noise: Noise = Noise()
    """Traffic of others."""
    faults: Faults = Faults()
    """Failures."""
    degraded: list[Degradation] = []
    """Slow resources."""
    picture: list[Picture] = []
    """Charts. None: slowdown and idle time."""

    @property
    def chosen(self) -> list[str]:
        """All policies, in order, each once."""
        pairs = [f"{allocation}+{placement}" for allocation in self.allocations for placement in self.placements]
        return list(dict.fromkeys([*self.policies, *pairs]))

    @property
    def measured(self) -> str:
        """The window in a word; `whole` of a replay, which is measured from the first job to the last."""
        return self.window.kind if isinstance(self.workload, PublishedWorkload | ListedWorkload) else "whole"

    @property
    def points(self) -> list[tuple[int, float | None]]:
        """(applications, load) of every point."""
        if isinstance(self.workload, ListedWorkload):
            return [(len(self.workload.rows), None)]
        if not isinstance(self.workload, PublishedWorkload):
            return [(self.workload.jobs, None)]
        return [(k, load) for k in self.workload.applications for load in self.workload.loads]


def read_experiment_spec(text: str, where: str) -> Experiment:
    """An experiment from the text of a TOML file called `where`, checked. Raises ConfigError naming the field."""
    try:
        found = msgspec.convert(_with_sets(tomllib.loads(text.removeprefix("\ufeff"))), Experiment)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", where=where) from error
    except RecursionError as error:
        raise ConfigError("nested too deeply", where=where, remedy=PAGE) from error
    except msgspec.ValidationError as error:
        raise ConfigError(_field(str(error)), where=where, remedy=_remedy(str(error))) from error
    check_experiment_spec(found, where)
    return found


def _with_sets(text: dict[str, Any]) -> dict[str, Any]:
    """A replay is made once where nothing else is said."""
    workload = text.get("workload")
    replayed = isinstance(workload, dict) and workload.get("kind") in ("swf", "table", "history")
    return {"sets": 1, **text} if replayed else text


def _field(message: str) -> str:
    """What msgspec says, the field first."""
    what, _, path = message.partition(" - at `$")
    what = re.sub(r"^Object contains unknown field `(.*)`$", r"there is no key '\1'", what)
    what = re.sub(r"^Object missing required field `(.*)`$", r"the key '\1' is missing", what)
    return f"{path.rstrip('`').lstrip('.')}: {what}" if path else what


def _remedy(message: str) -> str:
    """The page of the keys; before it a key that is spelled alike."""
    unknown = re.match(r"Object contains unknown field `(.*?)`", message)
    known = {name for table in _Strict.__subclasses__() for name in table.__struct_fields__}
    near = get_close_matches(unknown[1], sorted(known), n=1) if unknown else []
    return f"perhaps {near[0]}; {PAGE}" if near else PAGE


def check_experiment_spec(found: Experiment, where: str) -> None:
    """Raises ConfigError naming the field that no experiment can have."""

    def refuse(field: str, what: str, remedy: str) -> ConfigError:
        return ConfigError(f"{field}: {what}", where=where, remedy=remedy)

    if not found.name.strip():
        raise refuse("name", "is empty", "give the experiment a name")
    if len(found.name) > LONGEST_NAME or not found.name.isprintable():
        raise refuse("name", "is too long, or not one line of text", f"{LONGEST_NAME} characters at most")
    if not 0 <= found.seed <= MOST_SEED:
        raise refuse("seed", f"{found.seed} is negative or too large", f"0 to {MOST_SEED}")
    if found.sets < 1:
        raise refuse("sets", "no set", "1 or more; 100 for means to rely on")
    machine = found.machine
    if machine.resources < 1:
        raise refuse("machine.resources", "the machine has none", "1 or more")
    if machine.resources > MOST_COMPONENTS:
        raise refuse("machine.resources", f"{machine.resources:,} are too many", f"{MOST_COMPONENTS:,} at most")
    if not 0 < machine.cores < math.inf:
        raise refuse("machine.cores", f"{machine.cores:g} is not a valid number of cores", "above 0")
    if bool(found.allocations) != bool(found.placements):
        raise refuse("allocations", "and placements go together", "give both, or `policies`")
    if isinstance(found.workload, PublishedWorkload):
        _check_published(found.workload, machine, refuse)
    elif not isinstance(found.workload, ListedWorkload):
        _check_replayed(found, refuse)
    else:
        _check_listed(found.workload, machine, refuse)
        if "class-mean" in found.information:
            raise refuse("information", "these applications have no behaviour class", 'leave it at ["exact"]')
    if not found.information:
        raise refuse("information", "is empty", '["exact"], or "class-mean" beside it')
    _check_policies(found, refuse)
    _check_times(found, refuse)
    if isinstance(found.workload, ListedWorkload):
        _check_cycles(found.workload, found.window.until_s, refuse)
    _check_pictures(found, refuse)
    if len(found.points) * found.sets * len(found.chosen) * len(found.information) > MOST_RUNS:
        raise refuse("sets", f"these are more than {MOST_RUNS:,} runs", "fewer sets, points or policies")


def _check_published(workload: PublishedWorkload, machine: Machine, refuse: Refuse) -> None:
    if not workload.applications or min(workload.applications) < 1:
        raise refuse("workload.applications", "no applications", "at least one number of applications, 1 or more")
    if max(workload.applications) > MOST_APPLICATIONS:
        many = f"{max(workload.applications):,} are too many"
        raise refuse("workload.applications", many, f"{MOST_APPLICATIONS:,} at most")
    if not workload.loads:
        raise refuse("workload.loads", "is empty", "at least one load")
    for k in workload.applications:
        for load in workload.loads:
            if not LEAST_LOAD <= load < k / machine.resources:
                raise refuse(
                    "workload.loads",
                    f"{k} applications on {machine.resources} resources have no load {load:g}",
                    f"{LEAST_LOAD:f} or more, and below {k / machine.resources:g} (applications over resources)",
                )
    if workload.profiles == "osts" and workload.statistic != "median":
        raise refuse("workload.statistic", "only FORGE's curves have repetitions", "leave it out")


def _check_listed(workload: ListedWorkload, machine: Machine, refuse: Refuse) -> None:
    if not workload.rows:
        raise refuse("workload.rows", "no application: the history is empty", "write down one at least")
    counts = workload.counts
    if not counts or counts[0] < 1 or any(b <= a for a, b in pairwise(counts)):
        raise refuse("workload.counts", "are not whole numbers from 1 on that rise", "as [1, 2, 4, 8]")
    if counts[-1] > machine.resources:
        raise refuse(
            "workload.counts",
            f"{counts[-1]} resources of {machine.resources} can never be granted",
            "no more than machine.resources",
        )
    for number, one in enumerate(workload.rows):
        field = f"workload.rows[{number}]"
        for name, low in (("volume_bytes", 0.0), ("compute_s", 0.0), ("cores", 0.0)):
            value = getattr(one, name)
            if not math.isfinite(value) or value < low:
                raise refuse(f"{field}.{name}", f"{value:g} is negative or not a number", "0 or more")
            if value > MOST:
                raise refuse(f"{field}.{name}", f"{value:g} is too large", f"{MOST:g} at most")
        if not 1 <= one.phases <= MOST_CHANGES // len(workload.rows):
            raise refuse(f"{field}.phases", f"{one.phases} phases", f"1 or more, {MOST_CHANGES:,} in all at most")
        if one.volume_bytes == 0 and one.compute_s == 0:
            raise refuse(f"{field}.compute_s", "the application neither computes nor does I/O", "give it work or time")
        curve = one.bandwidth_bytes_per_s
        if len(curve) != len(counts):
            raise refuse(
                f"{field}.bandwidth_bytes_per_s",
                f"{len(curve)} values for {len(counts)} counts: the curve has a gap",
                "one value for each of workload.counts",
            )
        holes = [n for n, value in zip(counts, curve, strict=True) if not math.isfinite(value) or value <= 0]
        if holes:
            raise refuse(
                f"{field}.bandwidth_bytes_per_s", f"the curve has a gap at {holes[0]} resources", "bytes/s above 0"
            )
        if not 1.0 <= min(curve) <= max(curve) <= MOST:
            raise refuse(f"{field}.bandwidth_bytes_per_s", "is too slow or too fast", f"1 to {MOST:g} bytes/s")
    held = sum(one.cores for one in workload.rows)
    if held > machine.cores:
        raise refuse(
            "workload.rows",
            f"the applications hold {held:g} cores, the machine has {machine.cores:g}",
            "fewer or smaller applications, or a larger machine.cores",
        )


def _check_cycles(workload: ListedWorkload, until_s: float, refuse: Refuse) -> None:
    """Applications that repeat so fast that they never end, or whose I/O is too short for the clock."""
    cycles = 0.0
    for number, one in enumerate(workload.rows):
        io_s = one.volume_bytes / max(one.bandwidth_bytes_per_s)
        if 0 < io_s / one.phases < until_s * 1e-9:
            what = f"I/O of {io_s / one.phases:.3g} s a phase is too short for a clock of {until_s:g} s"
            raise refuse(f"workload.rows[{number}].volume_bytes", what, "more bytes, or an earlier window.until_s")
        cycles += until_s * one.phases / (one.compute_s + io_s)
        if cycles > MOST_CHANGES:
            what = f"its cycles of {one.compute_s + io_s:.3g} s are too many until {until_s:g} s"
            raise refuse(f"workload.rows[{number}].compute_s", what, "longer cycles, or an earlier window.until_s")


def _check_replayed(found: Experiment, refuse: Refuse) -> None:
    """What only sets of applications have is refused, not left aside."""
    check_replay_spec(found.workload, refuse)  # type: ignore[arg-type]
    for name, kind in (
        ("machine", Machine),
        ("window", Window),
        ("sharing", Sharing),
        ("noise", Noise),
        ("faults", Faults),
    ):
        if getattr(found, name) != kind():
            raise refuse(name, "a replay has no such table", "leave it out: [workload] is enough")
    if found.degraded:
        raise refuse("degraded", "a replay has no such table", "leave it out")
    if found.information != ("exact",):
        raise refuse("information", "a replay knows only the exact figures", 'leave it at ["exact"]')


def _check_policies(found: Experiment, refuse: Refuse) -> None:
    from fairlead.decide.registered_policies import list_registered_path_policies, list_registered_policies

    if not found.chosen and not all(one.kind == "best-counts" for one in found.picture or [Picture(title="")]):
        raise refuse("policies", "no policy", "at least one name: `fairlead simulate list` lists them")
    known = list_registered_policies()
    if not isinstance(found.workload, PublishedWorkload | ListedWorkload):
        known = [
            *list_registered_path_policies(),
            *known,
            *([AS_IT_WAS] if isinstance(found.workload, OwnPast) else []),
        ]
    for name in found.chosen:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            hint = f"perhaps {', '.join(near)}" if near else "ALLOCATION+PLACEMENT: `fairlead simulate list` lists them"
            raise refuse("policies", f"there is no policy {name!r}", hint)


def _check_times(found: Experiment, refuse: Refuse) -> None:
    window = found.window
    if not 0 <= window.from_s < window.until_s < math.inf:
        raise refuse(
            "window", f"from {window.from_s:g} s until {window.until_s:g} s is an empty span", "from_s before until_s"
        )
    if not 0 <= found.noise.share < 0.5:
        raise refuse("noise.share", f"{found.noise.share:g} is not a valid mean share", "0 or more, below 0.5")
    most = MOST_CHANGES / found.machine.resources
    every_s = found.noise.every_s
    if not every_s > 0 or (found.noise.share and window.until_s / every_s > most):
        raise refuse("noise.every_s", f"{every_s:g} s is not above 0, or too short for the window", "more seconds")
    faults = found.faults
    if not (0 <= faults.per_day < math.inf and faults.lasts_s > 0 and 0 <= faults.speed <= 1):
        raise refuse("faults", "a rate below 0, a length not above 0 or a speed not from 0 to 1", "see the reference")
    if faults.per_day * window.until_s / 86_400 > most:
        raise refuse(
            "faults.per_day", f"{faults.per_day:g} a day are too many for the window", "fewer, or an earlier end"
        )
    for number, one in enumerate(found.degraded):
        field = f"degraded[{number}]"
        if not 0 <= one.resource < found.machine.resources:
            raise refuse(f"{field}.resource", f"there is no resource {one.resource}", "0 to machine.resources - 1")
        if not 0 <= one.speed <= 1:
            raise refuse(f"{field}.speed", f"{one.speed:g} is not a share", "0 to 1")
        if not one.from_s >= 0 or (one.to_s is not None and not one.to_s > one.from_s):
            raise refuse(f"{field}.to_s", "is not after from_s", "seconds since the beginning")


def _check_pictures(found: Experiment, refuse: Refuse) -> None:
    from fairlead.decide.sim.experiments.cases import MEASURES

    for number, one in enumerate(found.picture):
        if one.kind == "lines" and one.measure not in MEASURES:
            near = get_close_matches(one.measure, MEASURES, n=3)
            hint = f"perhaps {', '.join(near)}" if near else f"one of {', '.join(MEASURES)}"
            raise refuse(f"picture[{number}].measure", f"there is no measure {one.measure!r}", hint)
        for name in one.policies:
            if name not in found.chosen:
                raise refuse(
                    f"picture[{number}].policies", f"{name!r} is not simulated", "name it under `policies` too"
                )


class Refuse(Protocol):
    """Makes the error about one field."""

    def __call__(self, field: str, what: str, remedy: str) -> ConfigError:
        """The error: field, what is wrong with it, what to do."""
        ...
