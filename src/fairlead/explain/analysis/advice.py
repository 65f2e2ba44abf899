"""What to do about a finding, from a set of advice that is data: which entries fit, and what is known put into them.

Pure. Not here: reading the set (`rules.advice_set`), what a gain would be (`history.expected_gain`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeGuard

import msgspec

from fairlead.core.model.finding import Advice
from fairlead.core.model.unit_formats import format_bandwidth, format_bytes, format_count
from fairlead.core.safe_text import escape_text
from fairlead.explain.analysis.interference.scene import VERDICTS

Audience = Literal["user", "culprit", "site"]
AUDIENCES: tuple[Audience, ...] = ("user", "culprit", "site")
"""`user`: whose job it is about; `culprit`: whose job disturbs it; `site`: who runs the machine."""
Language = Literal["bash", "c", "ini", "text"]

HINTS = ("rebuild", "one_client", "cache_thrashing", "full_target", "network", "fail_slow", "dead", "unknown")
"""Likely causes of an incident (`model.incident.Incident.hint`)."""
SYSTEM = (
    "cache_thrashing",
    "write_amplification",
    "forwarders_over",
    "forwarders_under",
    "imbalance",
    "metadata_storm",
    "login_misuse",
    "small_requests",
    "stripe_misuse",
    "burst_buffer_unused",
)
"""Words of findings about the whole system (rule `system.WORD`)."""
KNOWN: dict[str, tuple[str, ...]] = {
    "job.interference": tuple(word for word in VERDICTS if word not in ("component", "own", "unknown")),
    "job.slow_component": ("component", *HINTS),
    "job.slow_unexplained": ("unknown",),
    "job.own_change": ("own",),
    "component.degraded": HINTS,
    "component.dead": HINTS,
    **{f"system.{word}": (word,) for word in SYSTEM},
}
"""Rule → its verdicts (`Finding.category`): for each there is advice."""

Kind = Literal["name", "count", "ratio", "share", "bytes", "bytes/s", "1/s", "s"]


class Fact(msgspec.Struct, frozen=True):
    """One thing advice may speak of. `unknown` stands in a text while it is not known; in code its name does, in
    capitals, for a person to fill in."""

    kind: Kind
    meaning: str
    unknown: str


FACTS: dict[str, Fact] = {
    "job": Fact("name", "id of the job it is about", "the job"),
    "culprit": Fact("name", "id of the job that disturbs it", "the job named above"),
    "user": Fact("name", "who owns the job it is about", "its user"),
    "culprit_user": Fact("name", "who owns the job that disturbs it", "its user"),
    "program": Fact("name", "program of the job", "the program"),
    "component": Fact(
        "name", "the component: a forwarder, target, metadata server, port, device or node", "the component named above"
    ),
    "fs": Fact("name", "name of the file system", "the file system"),
    "node": Fact("name", "the node most of it comes from", "the node named above"),
    "neighbours": Fact("count", "jobs that shared the component", "several"),
    "processes": Fact("count", "processes of the job (of the culprit, where there is one)", "all"),
    "mdops_per_s": Fact("1/s", "metadata operations a second", "many operations/s"),
    "iops": Fact("1/s", "requests a second", "many requests/s"),
    "bandwidth_bytes_per_s": Fact("bytes/s", "bytes a second", "a high bandwidth"),
    "request_bytes": Fact("bytes", "mean size of a request", "small"),
    "share_of_peak": Fact("share", "what a component reached of its known peak", "a part"),
    "used_share": Fact("share", "how full a target is", "nearly full"),
    "small_share": Fact("share", "share of small requests", "a large share"),
    "amplification": Fact("ratio", "bytes at one layer for each byte at the layer above", "several times"),
    "imbalance": Fact("ratio", "load of the busiest over the mean", "far above the mean"),
    "stripe_count": Fact("count", "targets a file is striped over", "its"),
    "forwarders": Fact("count", "forwarders the job or the site has", "its"),
    "forwarders_needed": Fact("count", "forwarders that would carry the load", "as many as the load needs"),
    "lost_s": Fact("s", "time the job lost", "time"),
}
"""Name → what it is. A finding gives those it knows; the rest is None or left out."""

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_IN_CODE = re.compile(r"\{\{|\}\}|" + _PLACEHOLDER.pattern)
"""In code, doubled braces stand for one."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*")
"""What may stand in a command without quotes, whoever named it."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of advice. `verdicts` empty: for every verdict of the rule that has no entry of its own for this
    audience. `layers`: only where the component is one of these. `needs`: only where these facts are known. `gain`: the
    change whose expected gain is appended, where the site's history tells one."""

    audience: Audience
    text: str
    verdicts: list[str] = []
    layers: list[str] = []
    needs: list[str] = []
    code: str | None = None
    language: Language = "bash"
    gain: str | None = None


AdviceSet = Mapping[str, Sequence[Entry]]
"""Rule → entries, in the order they are told."""


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """What a change brought in runs that were observed: `factor` times the rate, over `runs` runs, told as "your
    `basis` get ...". `change` is a word of `CHANGES`."""

    change: str
    factor: float
    runs: int
    basis: str


CHANGES: dict[str, str] = {
    "mode": "another I/O mode (N-M or N-N instead of N-1)",
    "request_size": "larger requests",
    "quiet": "the same without the neighbour",
    "forwarders": "other forwarders, or more of them",
    "stripes": "another striping",
}
"""Changes a gain may be known of."""
FEWEST_RUNS = 2
LEAST_FACTOR = 1.1
"""A gain of fewer runs, or a smaller one, is not promised."""


def list_advice_placeholders(text: str, *, code: bool = False) -> list[str]:
    """Names of facts in `{braces}`; in code doubled braces are none."""
    return [name for name in (_IN_CODE if code else _PLACEHOLDER).findall(text) if name]


def select_advice(advice: AdviceSet, rule: str, verdict: str, layer: str | None = None) -> list[Entry]:
    """Entries that fit. For each audience those that name the verdict; where there are none, those that name none. With
    a `layer`, an entry for it goes before one for any layer; without, only those for any layer fit."""
    fitting = [one for one in advice.get(rule, ()) if not one.layers or layer in one.layers]
    chosen: list[Entry] = []
    for audience in AUDIENCES:
        mine = [one for one in fitting if one.audience == audience]
        mine = [one for one in mine if verdict in one.verdicts] or [one for one in mine if not one.verdicts]
        chosen += [one for one in mine if one.layers] or mine
    return chosen


def build_advice(
    advice: AdviceSet,
    rule: str,
    verdict: str,
    facts: Mapping[str, object],
    *,
    layer: str | None = None,
    gains: Iterable[Gain] = (),
) -> list[Advice]:
    """What to do about a finding of `rule` with `verdict` (its category). `facts`: names of `FACTS`, in the units their
    names say; None, NaN and what is left out are unknown. `gains`: what the site's own history promises of changes.
    Empty for a rule the set does not know. Raises KeyError for a name that is no fact."""
    for name in facts:
        if name not in FACTS:
            raise KeyError(f"unknown fact in advice: {name!r}")
    known = {name: value for name, value in facts.items() if _told(value)}
    by_change = {gain.change: gain for gain in gains if gain.runs >= FEWEST_RUNS and gain.factor >= LEAST_FACTOR}
    return [
        Advice(
            text=_filled(one.text, known) + _promised(by_change.get(one.gain or "")),
            audience=one.audience,
            code=None if one.code is None else _command(one.code, known),
            language=None if one.code is None else one.language,
        )
        for one in select_advice(advice, rule, verdict, layer)
        if all(name in known for name in one.needs)
    ]


def _told(value: object) -> TypeGuard[object]:
    return value is not None and value == value and value != ""


def _promised(gain: Gain | None) -> str:
    if gain is None:
        return ""
    return f" Your {escape_text(gain.basis)} get {gain.factor:.1f}x ({gain.runs} runs)."


def _filled(text: str, known: Mapping[str, object]) -> str:
    return _PLACEHOLDER.sub(lambda m: _shown(m[1], known[m[1]]) if m[1] in known else FACTS[m[1]].unknown, text)


def _command(code: str, known: Mapping[str, object]) -> str:
    """`code` with facts a shell takes as they are; others are left for a person to fill in."""

    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if name in known:
            value = known[name]
            text = str(round(value)) if isinstance(value, float) else str(value)
            if _PLAIN.fullmatch(text):
                return text
        return str(name.upper())

    return _IN_CODE.sub(put, code.strip("\n"))


def _shown(name: str, value: object) -> str:
    kind = FACTS[name].kind
    if kind == "name" or isinstance(value, bool) or not isinstance(value, int | float):
        return escape_text(str(value))
    match kind:
        case "bytes":
            return format_bytes(value)
        case "bytes/s":
            return format_bandwidth(value)
        case "1/s":
            return f"{format_count(value)}/s"
        case "share":
            return f"{value * 100:.0f} %"
        case "ratio":
            return f"{value:.1f}x"
        case "s":
            return f"{value:.0f} s"
    return format_count(value)
