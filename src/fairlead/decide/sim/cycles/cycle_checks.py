"""What `model.run` refuses: columns that fit no run, by the name of the field. Not here: running."""

from __future__ import annotations

import numpy as np

from fairlead.core.errors import UsageError
from fairlead.decide.sim.cycles.cycle_model import F64, I64, Cycles, Sharing, Speeds, Window


def check_cycles(
    cycles: Cycles, resources: I64, work_s: F64, count: int, window: Window, sharing: Sharing, speeds: Speeds
) -> None:
    """Raises UsageError naming the field that cannot be."""
    _check_cycles(cycles, work_s)
    _check_resources(resources, len(work_s), count)
    _check_window(window)
    _check_sharing(sharing, len(work_s))
    _check_speeds(speeds, count)
    if cycles.repeat and len(work_s):
        _check_repeats(cycles, work_s, window)


def _refused(what: str, where: str, remedy: str) -> UsageError:
    return UsageError(what, where=where, remedy=remedy)


def _check_cycles(cycles: Cycles, work_s: F64) -> None:
    k = len(cycles.start_s)
    for name, length, wanted in (
        ("first_phase", len(cycles.first_phase), k + 1),
        ("skip_s", len(cycles.skip_s), k),
        ("work_s", len(work_s), k),
        ("share", len(cycles.share), len(cycles.compute_s)),
    ):
        if length != wanted:
            raise _refused(f"{name} has {length} entries, not {wanted}", name, "one entry per application or phase")
    first = cycles.first_phase
    if int(first[0]) != 0 or int(first[-1]) != len(cycles.share) or (np.diff(first) < 1).any():
        raise _refused(
            "an application without phases, or a phase without application",
            "first_phase",
            "from 0 to the number of phases, rising by one at least",
        )
    for name, column in (
        ("compute_s", cycles.compute_s),
        ("share", cycles.share),
        ("work_s", work_s),
        ("start_s", cycles.start_s),
        ("skip_s", cycles.skip_s),
    ):
        if not np.isfinite(column).all() or (np.asarray(column) < 0).any():
            raise _refused(f"{name} is negative or not a number", name, "seconds or shares, 0 or more")


def _check_resources(resources: I64, applications: int, count: int) -> None:
    if resources.ndim != 2 or len(resources) != applications:
        raise _refused(
            f"resources is {resources.shape}, not one row for each of {applications} applications",
            "resources",
            "(K, W), -1 behind an application's last",
        )
    if not resources.size:
        return
    if int(resources.max()) >= count or int(resources.min()) < -1:
        raise _refused(f"a resource beyond the {count} there are", "resources", "0 to count - 1")
    given = resources >= 0
    if (given[:, 1:] & ~given[:, :-1]).any():
        raise _refused("a resource behind a -1", "resources", "an application's resources first, then -1")
    ordered = np.sort(resources, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise _refused("an application has a resource twice", "resources", "different ones in a row")


def _check_window(window: Window) -> None:
    if not (np.isfinite(window.from_s) and window.from_s >= 0):
        raise _refused(f"from_s is {window.from_s}", "from_s", "seconds, 0 or more")
    if not window.until_s >= 0:  # inf: to the end
        raise _refused(f"until_s is {window.until_s}", "until_s", "seconds, 0 or more, or inf")


def _check_sharing(sharing: Sharing, applications: int) -> None:
    weight, queue = np.asarray(sharing.weight), np.asarray(sharing.queue)
    if len(queue) != applications or (applications and (int(queue.min()) < 0 or int(queue.max()) >= len(weight))):
        raise _refused("queues of sharing do not fit", "queue", "one an application, 0 to the number of weights - 1")
    if not np.isfinite(weight).all() or (weight <= 0).any():
        raise _refused("a queue's weight is not above 0", "weight", "numbers above 0")


def _check_speeds(speeds: Speeds, count: int) -> None:
    initial, time_s, speed = (np.asarray(column) for column in (speeds.initial, speeds.time_s, speeds.speed))
    resource = np.asarray(speeds.resource)
    if len(initial) != count:
        raise _refused(f"initial has {len(initial)} entries, not {count}", "initial", "one speed a resource")
    if not len(time_s) == len(resource) == len(speed):
        raise _refused("changes of speed differ in length", "time_s", "a time, a resource and a speed each")
    for name, column in (("initial", initial), ("time_s", time_s), ("speed", speed)):
        if not np.isfinite(column).all() or (column < 0).any():
            raise _refused(f"{name} is negative or not a number", name, "0 or more")
    if (np.diff(time_s) < 0).any():
        raise _refused("changes of speed are not sorted by time", "time_s", "sort them")
    if len(resource) and (int(resource.max()) >= count or int(resource.min()) < 0):
        raise _refused(f"a change of speed of a resource beyond the {count} there are", "resource", "0 to count - 1")


def _check_repeats(cycles: Cycles, work_s: F64, window: Window) -> None:
    first = cycles.first_phase[:-1]
    cycle = np.add.reduceat(cycles.compute_s, first) + work_s * np.add.reduceat(cycles.share, first)
    if (cycle <= 0).any():
        raise _refused("an application that repeats takes no time", "compute_s", "give it work or time")
    if np.isinf(window.until_s):
        raise _refused("applications that repeat have no end", "until_s", "a number of seconds")
    if (cycle < 8.0 * np.spacing(window.until_s)).any():
        raise _refused(
            "an application repeats faster than a 64-bit clock can resolve",
            "until_s",
            "an earlier end, or more time in a cycle",
        )
