"""A rule as it stands in TOML, checked strictly: an unknown key, metric, cause or column is named with its file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec

from fairlead.analysis.costs import COSTS
from fairlead.analysis.profile import METRICS
from fairlead.errors import ConfigError
from fairlead.model.finding import Severity
from fairlead.rules.condition import Condition, ConditionError, parse

FILE_COLUMNS = frozenset({
    "processes", "read_bytes", "write_bytes", "read_ops", "write_ops", "opens", "stats", "metadata_ops",
    "read_time_s", "write_time_s", "meta_time_s", "io_time_s", "read_small_ops", "write_small_ops",
    "read_random_ops", "write_random_ops", "misaligned_ops", "mem_misaligned_ops", "data_straggler",
    "time_straggler", "shared_write_time_s", "independent_reads", "independent_writes", "stdio_bytes",
})  # fmt: skip
"""Columns of the file table that evidence may rank files by."""

NAMES = frozenset(METRICS) | {f"cost_{cause}_s" for cause in COSTS}
_PLACEHOLDER = re.compile(r"\{([a-z0-9_]+)\}")


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
    language: str | None = None
    when: str | None = None


class SeverityStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A severity that applies instead when its condition holds; the first that holds wins."""

    severity: Severity
    when: str


class Examples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics under which the rule fires and under which it stays quiet. Both are tested."""

    fires: dict[str, float | int | str | bool]
    quiet: dict[str, float | int | str | bool]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rule; its file is named after its `id`."""

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
    cost: str | None = None
    confidence: float = 0.9
    references: list[str] = []
    enabled: bool = True

    def conditions(self) -> Iterable[tuple[str, str]]:
        """Every condition with the key it stands under."""
        yield "when", self.when
        for n, step in enumerate(self.steps):
            yield f"steps[{n}].when", step.when
        for n, item in enumerate(self.evidence):
            if item.when:
                yield f"evidence[{n}].when", item.when
        for n, item in enumerate(self.advice):
            if item.when:
                yield f"advice[{n}].when", item.when

    def texts(self) -> Iterable[tuple[str, str]]:
        """Every text that may hold placeholders with the key it stands under."""
        yield "title", self.title
        for n, item in enumerate(self.evidence):
            yield f"evidence[{n}].text", item.text
        for n, advice in enumerate(self.advice):
            yield f"advice[{n}].text", advice.text


def placeholders(text: str) -> list[str]:
    """Metric names in `{braces}`."""
    return _PLACEHOLDER.findall(text)


def decode(text: str, where: str) -> Rule:
    """One rule from TOML. Raises ConfigError naming the file, the key and what would be right."""
    remedy = "see the reference page on writing rules"
    try:
        rule = msgspec.convert(tomllib.loads(text), Rule)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise ConfigError(str(fault), where=where, remedy=remedy) from fault
    _check(rule, where)
    return rule


def _check(rule: Rule, where: str) -> None:
    def wrong(key: str, what: str, remedy: str) -> ConfigError:
        return ConfigError(f"{key}: {what}", where=where, remedy=remedy)

    metrics_page = "`fairlead rules metrics` lists the names a rule may use"
    for key, text in rule.conditions():
        try:
            parse(text, NAMES)
        except ConditionError as fault:
            raise wrong(key, str(fault), metrics_page) from fault
    for key, text in rule.texts():
        for name in placeholders(text):
            if name not in NAMES:
                raise wrong(key, f"no metric is called {name!r}", metrics_page)
    for n, item in enumerate(rule.evidence):
        if item.metric is not None and item.metric not in NAMES:
            raise wrong(f"evidence[{n}].metric", f"no metric is called {item.metric!r}", metrics_page)
        if item.files is not None and item.files not in FILE_COLUMNS:
            raise wrong(f"evidence[{n}].files", f"no file column {item.files!r}", ", ".join(sorted(FILE_COLUMNS)))
    if rule.cost is not None and rule.cost not in COSTS:
        raise wrong("cost", f"no cause is called {rule.cost!r}", "causes: " + ", ".join(sorted(COSTS)))
    if not 0 <= rule.confidence <= 1:
        raise wrong("confidence", f"{rule.confidence} is not between 0 and 1", "give a number from 0 to 1")
    for name in (*rule.examples.fires, *rule.examples.quiet):
        if name not in NAMES:
            raise wrong("examples", f"no metric is called {name!r}", metrics_page)


def compiled(text: str) -> Condition:
    """A condition that `decode` has checked."""
    return parse(text)


def _toml_files(folder: Traversable | Path) -> list[Traversable | Path]:
    return sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)


def load(site: Path | None = None) -> dict[str, Rule]:
    """Built-in rules, then those of the site's folder, which override by id (`enabled = false` turns one off)."""
    rules: dict[str, Rule] = {}
    folders: list[Traversable | Path] = [files("fairlead.rules") / "builtin"]
    if site is not None:
        if not site.is_dir():
            raise ConfigError("no such folder of rules", where=str(site), remedy="give a folder of .toml rules")
        folders.append(site)
    for folder in folders:
        for file in _toml_files(folder):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as fault:
                raise ConfigError(f"cannot be read: {fault}", where=str(file), remedy="check the file") from fault
            rule = decode(text, str(file))
            if file.name != f"{rule.id}.toml":
                raise ConfigError(f"its id is {rule.id!r}", where=str(file), remedy=f"name the file {rule.id}.toml")
            rules[rule.id] = rule
    return rules
