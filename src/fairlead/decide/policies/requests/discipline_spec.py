"""From the text of a setting to a discipline: `job-fair,cap-job:0.5,rate-job:100M,rate-target:ost3=200ops`.

First the order, then caps and rates, separated by commas; docs/explanation/request-scheduling.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fairlead.core.errors import ConfigError
from fairlead.decide.policies.requests.limits import Limits, Rate
from fairlead.decide.policies.requests.orders import Order
from fairlead.decide.policies.requests.queue import RequestQueue
from fairlead.decide.registered_policies import find_registered_order, list_registered_orders

LIMITS = (
    "cap-job:SHARE|off",
    "cap-target:SHARE|off",
    "rate-job:[JOB=]RATE",
    "rate-target:[TARGET=]RATE",
    "rate-pool:[POOL@TARGET=]RATE",
    "pool:JOB=POOL",
)
_SIZES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:(ops)|([KMGT]?i?)B?)(?:/s)?", re.IGNORECASE)


def parse_discipline_rate(text: str, where: str = "rate") -> Rate:
    """`100M`, `1.5GiB/s` (bytes a second) or `200ops` (operations a second)."""
    match = _RATE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ConfigError(
            f"not a rate above zero: {text!r}",
            where=where,
            remedy="bytes per second such as 100M or 1GiB/s, operations such as 200ops",
        )
    number = float(match[1])
    return Rate(number, operations=True) if match[2] else Rate(number * _SIZES[(match[3] or "").upper()])


def build_discipline(spec: str, *, workers: int, seed: int) -> RequestQueue:
    """The discipline a spec asks for. Raises ConfigError naming the part that is wrong."""
    first, *parts = [part.strip() for part in spec.split(",")]
    limits = Limits(workers, job_cap=max(1, workers - 1), target_cap=max(1, workers // 2), most=max(1, workers - 1))
    order = _order(first, seed, spec)
    capped = dict.fromkeys(("cap-job", "cap-target"), True)
    for part in parts:
        name, _, value = part.partition(":")
        if name in capped:
            share = _cap(value, workers, part, spec)
            capped[name] = share is not None
            if name == "cap-job":
                limits.job_cap = share or workers
            else:
                limits.target_cap = share or workers
        elif name in _SETTERS:
            _SETTERS[name](limits, value, f"{part!r} in {spec!r}")
        else:
            raise _wrong(part, spec, f"{', '.join(LIMITS)} follow the order")
    if not any(capped.values()):
        limits.most = workers
    return RequestQueue(order, limits)


def _wrong(part: str, spec: str, remedy: str) -> ConfigError:
    return ConfigError(f"{part!r} is not a valid part of a discipline", where=repr(spec), remedy=remedy)


def _order(name: str, seed: int, spec: str) -> Order:
    kind, _, argument = name.partition(":")
    names = list_registered_orders()
    if kind not in names:
        raise _wrong(name, spec, f"begin with one of {', '.join(names)}")
    try:
        return find_registered_order(kind)(argument, seed)
    except ValueError as error:
        raise _wrong(name, spec, f"{kind} {error}") from error


def _fraction(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?|\.\d+", text) else None


def _cap(value: str, workers: int, part: str, spec: str) -> int | None:
    if value == "off":
        return None
    share = _fraction(value)
    if share is None or not 0 < share <= 1:
        raise _wrong(part, spec, "a cap is a share of the workers above 0 and up to 1, such as 0.5, or off")
    return max(1, int(share * workers))


def _rate_job(limits: Limits, value: str, where: str) -> None:
    name, equals, text = value.rpartition("=")
    if equals:
        limits.rate_job(_named(name, where, "JOB=RATE"), parse_discipline_rate(text, where))
    else:
        limits.every_job += (parse_discipline_rate(text, where),)
        limits.rated = True


def _rate_target(limits: Limits, value: str, where: str) -> None:
    name, equals, text = value.rpartition("=")
    if equals:
        limits.rate_target(_named(name, where, "TARGET=RATE"), parse_discipline_rate(text, where))
    else:
        limits.every_target += (parse_discipline_rate(text, where),)
        limits.rated = True


def _rate_pool(limits: Limits, value: str, where: str) -> None:
    name, equals, text = value.rpartition("=")
    if not equals:
        limits.every_pool += (parse_discipline_rate(text, where),)
        limits.rated = True
        return
    pool, at, target = name.partition("@")
    if not at or not pool or not target:
        raise ConfigError(f"{name!r} is not POOL@TARGET", where=where, remedy="write POOL@TARGET=RATE")
    limits.rate_pool(target, pool, parse_discipline_rate(text, where))


def _pool(limits: Limits, value: str, where: str) -> None:
    job, equals, pool = value.partition("=")
    if not equals or not job or not pool:
        raise ConfigError(f"{value!r} is not JOB=POOL", where=where, remedy="write JOB=POOL")
    limits.assign(job, pool)


def _named(name: str, where: str, form: str) -> str:
    if not name:
        raise ConfigError("nothing is named before the =", where=where, remedy=f"write {form}")
    return name


_SETTERS: dict[str, Callable[[Limits, str, str], None]] = {
    "rate-job": _rate_job,
    "rate-target": _rate_target,
    "rate-pool": _rate_pool,
    "pool": _pool,
}
