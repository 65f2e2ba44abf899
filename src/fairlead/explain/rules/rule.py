"""A rule as it stands in TOML, checked strictly: an unknown key, metric, cause or column is named with its file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from fairlead.core.errors import ConfigError
from fairlead.core.model.finding import Severity
from fairlead.explain.analysis.costs import COSTS
from fairlead.explain.analysis.profile import METRICS
from fairlead.explain.rules.condition import ConditionError, Kind, compile_condition, parse_condition

_KIND_OF_UNIT: dict[str, Kind] = {"word": "word", "bool": "truth"}
NAMES: dict[str, Kind] = {name: _KIND_OF_UNIT.get(unit, "number") for name, (unit, _) in METRICS.items()} | {
    f"cost_{cause}_s": "number" for cause in COSTS
}
"""Every name a rule may use, and what kind of value it has."""

FILE_COLUMNS: dict[str, str] = {
    "processes": "processes that used the file",
    "read_bytes": "bytes read",
    "write_bytes": "bytes written",
    "read_ops": "reads",
    "write_ops": "writes",
    "opens": "opens",
    "stats": "stat calls",
    "metadata_ops": "opens, stats and renames",
    "read_time_s": "time in reads",
    "write_time_s": "time in writes",
    "meta_time_s": "time in metadata operations",
    "io_time_s": "time in all of these",
    "read_small_ops": "reads of at most 1 MiB",
    "write_small_ops": "writes of at most 1 MiB",
    "read_random_ops": "reads out of order",
    "write_random_ops": "writes out of order",
    "misaligned_ops": "requests off the file system's block",
    "mem_misaligned_ops": "requests from unaligned memory",
    "data_straggler": "whether one rank moved far more of it than another",
    "time_straggler": "whether one rank took far longer with it than another",
    "shared_write_time_s": "time in writes, where several processes used it",
    "independent_reads": "independent MPI-IO reads",
    "independent_writes": "independent MPI-IO writes",
    "stdio_bytes": "bytes through STDIO",
}
"""Columns of the file table that evidence may rank files by (`files = "..."`), and what they hold."""

_PLACEHOLDER = re.compile(r"\{([a-z0-9_]+)(?::([^{}|]*)\|([^{}|]*))?\}")
_BRACES = re.compile(r"\{[^{}]*\}")
_ID = re.compile(r"[a-z][a-z0-9_]*")
_KEYS_PAGE = "the page on writing rules lists the keys of a rule; `fairlead rule show RULE` shows one as an example"
_METRICS_PAGE = "`fairlead rule metrics` lists the names a rule may use"


class EvidenceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`text` with `{metric}` placeholders, shown in the metric's unit; `files` ranks files by a column."""

    text: str
    metric: str | None = None
    files: str | None = None
    ranks: Literal["slowest", "stragglers"] | None = None
    when: str | None = None


class AdviceTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do, for `user`, `developer` or `site`; `code` is the exact call, hint or directive. `when` narrows it."""

    text: str
    audience: Literal["user", "developer", "site"] = "user"
    code: str | None = None
    language: Literal["c", "bash", "python", "fortran", "ini", "text"] | None = None
    when: str | None = None


class SeverityStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A severity that applies instead when its condition holds; the first that holds wins."""

    severity: Severity
    when: str


class Covering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A more general rule that stays silent where this one fires (and `when` holds): one fault, one finding."""

    rule: str
    when: str | None = None


class Examples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics under which the rule fires and under which it stays quiet. Both are tested."""

    fires: dict[str, float | int | str | bool]
    quiet: dict[str, float | int | str | bool]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rule; its file is named after its `id`.

    `severity` is the worst it can be: what costs the job little is lowered (`rule_engine.cap_rule_severity`), unless
    the fault `burdens_others`. `cost` is a cause of `analysis.costs`.
    """

    id: str
    title: str
    category: str
    severity: Severity
    when: str
    about: str
    evidence: list[EvidenceTemplate]
    examples: Examples
    advice: list[AdviceTemplate] = []
    steps: list[SeverityStep] = []
    covers: list[Covering] = []
    cost: str | None = None
    burdens_others: bool = False
    confidence: float = 0.9
    references: list[str] = []
    enabled: bool = True

    def list_conditions(self) -> Iterable[tuple[str, str]]:
        """Every condition with the key it stands under."""
        yield "when", self.when
        lists = (("steps", self.steps), ("covers", self.covers), ("evidence", self.evidence), ("advice", self.advice))
        for key, items in lists:
            for n, item in enumerate(items):
                if item.when:  # type: ignore[attr-defined]
                    yield f"{key}[{n}].when", item.when  # type: ignore[attr-defined]

    def list_texts(self) -> Iterable[tuple[str, str]]:
        """Every text that may hold placeholders with the key it stands under."""
        yield "title", self.title
        for n, item in enumerate(self.evidence):
            yield f"evidence[{n}].text", item.text
        for n, advice in enumerate(self.advice):
            yield f"advice[{n}].text", advice.text


def list_rule_placeholders(text: str) -> list[str]:
    """Metric names in `{braces}`; `{name:one|many}` adds the word that fits the number."""
    return [found[1] for found in _PLACEHOLDER.finditer(text)]


def substitute_rule_placeholders(text: str, show: Callable[[str], str]) -> str:
    """`text` with placeholders replaced by what `show` gives for a metric."""

    def put(found: re.Match[str]) -> str:
        shown = show(found[1])
        return shown if found[2] is None else f"{shown} {found[2] if shown == '1' else found[3]}"

    return _PLACEHOLDER.sub(put, text)


def decode_rule(text: str, where: str, built_in: Mapping[str, Rule] = {}) -> Rule:
    """One rule from TOML. Where a rule of its id is `built_in`, the keys given replace that rule's. Raises ConfigError
    naming the file, the key and what would be right."""
    rule, found = read_rule(text, where, built_in)
    if rule is None or found:
        raise found[0]
    return rule


def read_rule(text: str, where: str, built_in: Mapping[str, Rule] = {}) -> tuple[Rule | None, list[ConfigError]]:
    """As `decode_rule`, with everything that is wrong as errors that name the file, the key and the remedy. No rule
    where the text is not even of the right shape."""
    try:
        given = tomllib.loads(text)
        base = built_in.get(str(given.get("id")))
        rule = msgspec.convert(msgspec.to_builtins(base) | given if base else given, Rule)
    except RecursionError:
        return None, [ConfigError("nested too deeply", where=where, remedy=_KEYS_PAGE)]
    except tomllib.TOMLDecodeError as fault:
        return None, [ConfigError(f"not TOML: {fault}", where=where, remedy="mend the line; text goes in quotes")]
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at ")
        key = path.strip("`").removeprefix("$").lstrip(".")
        return None, [ConfigError(f"{key}: {what}" if key else what, where=where, remedy=_KEYS_PAGE)]
    return rule, [ConfigError(f"{key}: {what}", where=where, remedy=remedy) for key, what, remedy in _wrong(rule)]


def check_rule_examples(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, remedy) where the rule's own examples are not as they say."""
    condition = compile_condition(rule.when)
    for which, wanted in (("fires", True), ("quiet", False)):
        holds = condition.holds(getattr(rule.examples, which))
        if holds is not wanted:
            lacking = ", ".join(condition.list_unknown(getattr(rule.examples, which)))
            what = (
                "the rule cannot be decided" if holds is None else "the rule fires" if holds else "the rule stays quiet"
            )
            remedy = f"also give {lacking}" if holds is None else "mend the example or `when`"
            yield f"examples.{which}", f"{what} under them", remedy


def _wrong(rule: Rule) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, remedy) for what the types alone do not tell."""
    if not _ID.fullmatch(rule.id):
        yield "id", f"{rule.id!r} is no name", "use lower-case letters, digits and underscores"
    if not rule.title.strip():
        yield "title", "is empty", "say in one line what was seen"
    if not rule.evidence:
        yield "evidence", "is empty", "name at least one metric that shows it"
    if not 0 <= rule.confidence <= 1:
        yield "confidence", f"{rule.confidence} is not between 0 and 1", "give a number from 0 to 1"
    if rule.cost is not None and rule.cost not in COSTS:
        yield "cost", f"no cause is called {rule.cost!r}", "causes: " + ", ".join(sorted(COSTS))
    for key, text in rule.list_conditions():
        try:
            parse_condition(text, NAMES)
        except ConditionError as fault:
            yield key, str(fault), _METRICS_PAGE
    for key, text in rule.list_texts():
        for braces in _BRACES.findall(text):
            if not _PLACEHOLDER.fullmatch(braces):
                yield key, f"{braces} is no placeholder", "write {metric} or {metric:one|many}"
        yield from _unnamed(key, list_rule_placeholders(text))
    for n, item in enumerate(rule.evidence):
        yield from _unnamed(f"evidence[{n}].metric", [item.metric] if item.metric else [])
        if item.files is not None and item.files not in FILE_COLUMNS:
            yield f"evidence[{n}].files", f"no file column {item.files!r}", "columns: " + ", ".join(FILE_COLUMNS)
    for n, covering in enumerate(rule.covers):
        if covering.rule == rule.id:
            yield f"covers[{n}].rule", "a rule cannot cover itself", "name a more general rule"
    for which in ("fires", "quiet"):
        yield from _unnamed(f"examples.{which}", getattr(rule.examples, which))


def _unnamed(key: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for name in names:
        if name not in NAMES:
            yield key, f"no metric is called {name!r}", _METRICS_PAGE
