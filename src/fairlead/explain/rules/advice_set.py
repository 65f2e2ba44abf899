"""Advice as data: one TOML file a rule, read strictly; those fairlead comes with, then those of a site's folder.

Not here: which entry fits a finding, and what is put into it (`analysis.advice`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from fairlead.core.errors import ConfigError
from fairlead.core.model.incident import Layer
from fairlead.explain.analysis.advice import CHANGES, FACTS, KNOWN, AdviceSet, Entry, list_advice_placeholders
from fairlead.explain.rules.rule_set import list_rule_files, read_rule_file

LAYERS: tuple[str, ...] = Layer.__args__  # type: ignore[attr-defined]
_BRACES = re.compile(r"\{[^{}]*\}")
_OTHERS = ("culprit", "culprit_user")
"""Facts that are not for the eyes of whose job was disturbed."""
_REMEDY = "`fairlead rule advice` lists rules, verdicts and facts; docs: howto/write-a-rule"


class AdviceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file, named after its rule. In a site's folder its entries stand in for the built-in ones of the same verdict
    and audience; with `add`, they come after them."""

    rule: str
    advice: list[Entry]
    references: list[str] = []
    add: bool = False


def load_advice_set(site: Path | None = None) -> AdviceSet:
    """Built-in advice, then that of the folder `advice` in the site's folder of rules, if there is one. Raises
    ConfigError for the first fault, naming file, key and remedy."""
    built_in = {name: list(one.advice) for name, one in read_builtin_advice().items()}
    folder = site / "advice" if site is not None else None
    if folder is None or not folder.is_dir():
        return built_in
    found = dict(built_in)
    for file in list_rule_files(folder):
        one = _read_file(file)
        found[one.rule] = _merge_entries(found.get(one.rule, []), one)
    return found


@cache
def read_builtin_advice() -> dict[str, AdviceFile]:
    """Rule → the file fairlead comes with."""
    return {one.rule: one for one in map(_read_file, list_rule_files(files("fairlead.explain.rules") / "advice"))}


def _merge_entries(base: list[Entry], site: AdviceFile) -> list[Entry]:
    """`base` with a site's entries."""
    if site.add:
        return [*base, *site.advice]
    mine = {(verdict, one.audience) for one in site.advice for verdict in one.verdicts or [""]}
    kept: list[Entry] = []
    for one in base:
        verdicts = [verdict for verdict in one.verdicts if (verdict, one.audience) not in mine]
        if verdicts or (not one.verdicts and ("", one.audience) not in mine):
            kept.append(msgspec.structs.replace(one, verdicts=verdicts))
    return [*site.advice, *kept]


def check_advice_set(folder: Path) -> tuple[list[str], list[ConfigError]]:
    """Rules whose file in a folder of advice is sound, and every fault of the others."""
    sound: list[str] = []
    faults: list[ConfigError] = []
    for file in list_rule_files(folder):
        try:
            sound.append(_read_file(file).rule)
        except ConfigError as fault:
            faults.append(fault)
    return sound, faults


def _read_file(file: Traversable | Path) -> AdviceFile:
    """One file. Raises ConfigError."""
    where = str(file)
    try:
        found = msgspec.convert(tomllib.loads(read_rule_file(file)), AdviceFile)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"not TOML: {fault}", where=where, remedy="mend the line; text goes in quotes") from fault
    except RecursionError:
        raise ConfigError("nested too deeply", where=where, remedy=_REMEDY) from None
    except msgspec.ValidationError as fault:
        raise ConfigError(str(fault), where=where, remedy=_REMEDY) from fault
    for key, what, remedy in _wrong(found):
        raise ConfigError(f"{key}: {what}", where=where, remedy=remedy)
    if file.name != f"{found.rule}.toml":
        raise ConfigError(f"rule: is {found.rule!r}", where=where, remedy=f"name the file {found.rule}.toml")
    return found


def _wrong(found: AdviceFile) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, remedy)."""
    if found.rule not in KNOWN:
        yield "rule", f"no finding has the rule {found.rule!r}", "rules: " + ", ".join(KNOWN)
        return
    for n, one in enumerate(found.advice):
        key = f"advice[{n}]"
        if not one.text.strip():
            yield f"{key}.text", "is empty", "say in a sentence what to do"
        words = (
            ("verdicts", one.verdicts, KNOWN[found.rule]),
            ("layers", one.layers, LAYERS),
            ("needs", one.needs, tuple(FACTS)),
            ("gain", [one.gain] if one.gain else [], tuple(CHANGES)),
        )
        for name, given, allowed in words:
            for word in given:
                if word not in allowed:
                    yield f"{key}.{name}", f"{word!r} is none of them", "one of " + ", ".join(allowed)
        named = [("text", name) for name in _BRACES.findall(one.text)]
        named += [("code", "{" + name + "}") for name in list_advice_placeholders(one.code or "", code=True)]
        for name, braces in named:
            if one.audience == "user" and braces[1:-1] in _OTHERS:
                yield f"{key}.{name}", f"{braces} tells a user of somebody else", "say it to culprit or site"
            if braces[1:-1] not in FACTS:
                yield f"{key}.{name}", f"there is no fact {braces}", "facts: " + ", ".join(FACTS)
