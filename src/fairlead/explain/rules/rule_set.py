"""The rules of a run: those fairlead comes with, then those of a site's folder, which add and override."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from fairlead.core.errors import ConfigError, FairleadError, PluginError
from fairlead.core.extensions import build_extension_defect, load_extensions, report_extension_faults
from fairlead.explain.rules.rule import Rule, check_rule_examples, decode_rule, read_rule

GROUP = "fairlead.rules"


def load_rule_set(site: Path | None = None) -> dict[str, Rule]:
    """Built-in rules, then those of plug-ins (`fairlead.rules`), then those of the site's folder. A later rule of the
    same id replaces the keys it gives (so `id` and `enabled = false` turn one off). Raises ConfigError for the first
    fault of the folder, naming file, key and remedy; a faulty plug-in is reported and left out."""
    rules = _read(files("fairlead.explain.rules") / "builtin", {})
    added, faults = _load_plugin_rules(rules)
    rules |= added
    report_extension_faults(faults)
    if site is not None:
        rules |= _read(_folder(site), rules)
    for fault in _crossed(rules, site):
        raise fault
    return rules


def _load_plugin_rules(built_in: Mapping[str, Rule]) -> tuple[dict[str, Rule], list[PluginError]]:
    """Rules of the packages that entry points of `fairlead.rules` name, and the errors of those left out: one faulty
    rule, and none of its package is taken."""
    packages, faults = load_extensions(GROUP)
    rules: dict[str, Rule] = {}
    for name, package in packages.items():
        try:
            known = {**built_in, **rules}
            added = _read(files(package), known)
            for fault in _crossed(known | added, None):
                raise fault
            rules |= added
        except (FairleadError, TypeError, OSError) as fault:
            faults.append(build_extension_defect(GROUP, name, fault))
    return rules, faults


def check_rule_set(site: Path) -> tuple[list[str], list[ConfigError]]:
    """Ids of the sound rules of a site's folder, and every fault of the others, their examples included. Raises
    ConfigError when there is no such folder."""
    built_in = load_rule_set()
    sound: dict[str, Rule] = {}
    found: list[ConfigError] = []
    for file in list_rule_files(_folder(site)):
        rule, mine = _checked(file, built_in)
        found += mine
        if rule is not None and not mine:
            sound[rule.id] = rule
    crossed = list(_crossed(built_in | sound, site))
    wrong = {Path(str(fault.where)).stem for fault in crossed}
    return [name for name in sound if name not in wrong], found + crossed


def _checked(file: Traversable | Path, built_in: Mapping[str, Rule]) -> tuple[Rule | None, list[ConfigError]]:
    where = str(file)
    try:
        rule, mine = read_rule(read_rule_file(file), where, built_in)
        if rule is not None and not mine:
            _named(rule, file)
    except ConfigError as fault:
        return None, [fault]
    base = built_in.get(rule.id) if rule is not None else None
    # An override that leaves the examples alone need not agree with them: they are the built-in rule's.
    if rule is not None and not mine and (base is None or base.examples != rule.examples):
        mine = [
            ConfigError(f"{key}: {what}", where=where, remedy=remedy) for key, what, remedy in check_rule_examples(rule)
        ]
    return rule, mine


def _folder(site: Path) -> Path:
    if not site.is_dir():
        raise ConfigError("no such folder of rules", where=str(site), remedy="give a folder of .toml rules")
    return site


LARGEST_BYTES = 1 << 20
"""No rule is near as large."""


def list_rule_files(folder: Traversable | Path) -> list[Traversable | Path]:
    """The .toml files of a folder by name. Raises ConfigError."""
    try:
        return sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    except OSError as fault:
        what = f"cannot be read: {fault.strerror or fault}"
        raise ConfigError(what, where=str(folder), remedy="check the folder's permissions") from fault


def read_rule_file(file: Traversable | Path) -> str:
    """What a file of rules holds. Raises ConfigError."""
    try:
        if not file.is_file():
            raise ConfigError("not a regular file", where=str(file), remedy="move it out of the rules folder")
        with file.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            what = f"larger than {LARGEST_BYTES >> 20} MiB"
            raise ConfigError(what, where=str(file), remedy="a rule is a page of text; check what the file is")
        return content.decode("utf-8")
    except OSError as fault:
        what = f"cannot be read: {fault.strerror or fault}"
        raise ConfigError(what, where=str(file), remedy="check the file and its permissions") from fault
    except UnicodeDecodeError as fault:
        raise ConfigError(f"not UTF-8: {fault.reason}", where=str(file), remedy="save it as UTF-8") from fault


def _named(rule: Rule, file: Traversable | Path) -> Rule:
    if file.name != f"{rule.id}.toml":
        remedy = f"name the file {rule.id}.toml, or mend the id"
        raise ConfigError(f"id: is {rule.id!r}", where=str(file), remedy=remedy)
    return rule


def _read(folder: Traversable | Path, built_in: Mapping[str, Rule]) -> dict[str, Rule]:
    rules = (_named(decode_rule(read_rule_file(file), str(file), built_in), file) for file in list_rule_files(folder))
    return {rule.id: rule for rule in rules}


def _crossed(rules: Mapping[str, Rule], site: Path | None) -> Iterator[ConfigError]:
    """Faults between rules: what covers a rule that is not there, and rings of rules that cover each other."""
    for rule in rules.values():
        where = str(site / f"{rule.id}.toml") if site is not None else rule.id
        for n, covering in enumerate(rule.covers):
            if covering.rule not in rules:
                remedy = "`fairlead rule list` lists them"
                yield ConfigError(f"covers[{n}].rule: there is no rule {covering.rule!r}", where=where, remedy=remedy)
        if rule.id in find_covered_rules(rules, rule.id):
            remedy = "let only the more specific rule cover the other"
            yield ConfigError("covers: this rule covers itself by way of others", where=where, remedy=remedy)


def find_covered_rules(rules: Mapping[str, Rule], start: str) -> list[str]:
    """Rules that `start` covers, directly or by way of others, whatever their conditions."""
    out: list[str] = []
    waiting = [c.rule for c in rules[start].covers]
    while waiting:
        name = waiting.pop()
        if name not in out and name in rules:
            out.append(name)
            waiting += [c.rule for c in rules[name].covers]
    return out
