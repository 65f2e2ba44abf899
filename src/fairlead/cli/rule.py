"""`fairlead rule`: the diagnosis rules as they stand. Not here: evaluating them (`fairlead report --explain RULE`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.noun import Noun
from fairlead.cli.options import PATH, json_option
from fairlead.cli.printing import print_json
from fairlead.cli.startup import skip_pandas_at_startup
from fairlead.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from fairlead.explain.rules.rule import Rule

SEVERITY_STYLE = {"critical": "bold red", "high": "red", "warning": "yellow", "info": "cyan", "ok": "green"}

_rules_option = click.option(
    "--rules",
    "rules_dir",
    type=PATH,
    envvar="FAIRLEAD_RULES",
    metavar="DIR",
    help="A folder of the site's own rules; they override built-in ones of the same id.",
)


@click.group(cls=Noun)
def rule() -> None:
    """The diagnosis rules: list, show, check, the metrics they may use, and advice."""
    skip_pandas_at_startup()


@rule.command("list")
@_rules_option
@json_option
def list_rules(rules_dir: Path | None, as_json: bool) -> None:
    """List all rules: id, category, worst severity, what they find."""
    from fairlead.explain.rules.rule_description import format_rule_template, join_rule_lines

    found, origin = _load(rules_dir)
    if as_json:
        print_json(
            {
                "schema": "fairlead.rules/1",
                "rules": [
                    {
                        "id": r.id,
                        "category": r.category,
                        "severity": r.severity,
                        "title": format_rule_template(r.title),
                        "when": join_rule_lines(r.when),
                        "cost": r.cost,
                        "covers": [c.rule for c in r.covers],
                        "references": r.references,
                        "origin": origin[r.id],
                        "enabled": r.enabled,
                    }
                    for r in found
                ],
            }
        )
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("rule", "category", "worst"):
        table.add_column(name, no_wrap=True)
    table.add_column("what it finds", ratio=1)
    for rule in found:
        says = Text(format_rule_template(rule.title), style="" if rule.enabled else "dim")
        if origin[rule.id] == "site":
            says.append("  (site)", style="dim")
        if not rule.enabled:
            says.append("  (turned off)", style="dim")
        table.add_row(rule.id, rule.category, Text(rule.severity, style=SEVERITY_STYLE[rule.severity]), says)
    _print(table)
    click.echo(f"{len(found)} rules")


@rule.command("show")
@click.argument("rule_id", metavar="RULE")
@_rules_option
@json_option
def show_rule(rule_id: str, rules_dir: Path | None, as_json: bool) -> None:
    """Show one rule in full: what it means, when it fires, what to do, where it comes from."""
    import msgspec

    found, origin = _load(rules_dir)
    by_id = {rule.id: rule for rule in found}
    if rule_id not in by_id:
        from difflib import get_close_matches

        near = get_close_matches(rule_id, by_id, 1)
        also = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"there is no rule {rule_id!r}{also}", remedy="`fairlead rule list` lists them")
    rule = by_id[rule_id]
    if as_json:
        print_json({"schema": "fairlead.rule/1", "origin": origin[rule_id], **msgspec.to_builtins(rule)})
        return
    _print(*_shown(rule, by_id))


@rule.command("check")
@click.argument("folder", type=PATH, metavar="DIR")
@json_option
def check_rules(folder: Path, as_json: bool) -> None:
    """Check a folder of rules: lists every fault with file, key and remedy.

    Exits with 5 if there is a fault.
    """
    from fairlead.explain.rules.advice_set import check_advice_set
    from fairlead.explain.rules.rule_set import check_rule_set as check_folder

    sound, faults = check_folder(folder)
    if (folder / "advice").is_dir():
        advised, wrong = check_advice_set(folder / "advice")
        sound, faults = [*sound, *(f"advice/{name}" for name in advised)], [*faults, *wrong]
    if as_json:
        print_json(
            {
                "schema": "fairlead.rules.check/1",
                "folder": str(folder),
                "sound": sound,
                "faults": [{"file": f.where, "what": f.what, "remedy": f.remedy} for f in faults],
            }
        )
    elif sound or not faults:
        click.echo(f"{len(sound)} sound: {', '.join(sound)}" if sound else "no rules (.toml files) in this folder")
    if len(faults) == 1:
        raise faults[0]
    for fault in faults:
        click.echo(click.style("error: ", fg="red", bold=True) + str(fault), err=True)
    if faults:
        files = len({fault.where for fault in faults})
        what = f"{len(faults)} faults in {files} file{'s' if files > 1 else ''}"
        raise ConfigError(what, where=str(folder), remedy="fix them and check again")


@rule.command("advice")
@click.argument("rule_id", metavar="[RULE]", required=False)
@_rules_option
@json_option
def show_rule_advice(rule_id: str | None, rules_dir: Path | None, as_json: bool) -> None:
    """Show the advice for findings on jobs, components and the system: of one RULE, or of all.

    A folder `advice` in the site's folder of rules extends or replaces it.
    """
    import msgspec

    from fairlead.explain.rules.advice_set import load_advice_set

    found = load_advice_set(rules_dir)
    if rule_id is not None and rule_id not in found:
        raise UsageError(f"there is no advice on {rule_id!r}", remedy="rules with advice: " + ", ".join(sorted(found)))
    chosen = {name: entries for name, entries in sorted(found.items()) if rule_id in (None, name)}
    if as_json:
        told = [{"rule": name, "advice": msgspec.to_builtins(entries)} for name, entries in chosen.items()]
        print_json({"schema": "fairlead.rules.advice/1", "rules": told})
        return
    from rich.text import Text

    for name, entries in chosen.items():
        _print(Text(name, style="bold"))
        for one in entries:
            only = "".join(
                f" [{word}: {', '.join(values)}]"
                for word, values in (("verdict", one.verdicts), ("layer", one.layers), ("needs", one.needs))
                if values
            )
            _print(*_one_advice(f"{one.text} ({one.audience}){only}", one.code, one.language))


@rule.command("metrics")
@json_option
def list_rule_metrics(as_json: bool) -> None:
    """List every name a rule may use, with unit and meaning."""
    from rich.table import Table

    from fairlead.explain.rules.rule_description import list_rule_metrics

    if as_json:
        rows = [{"name": name, "unit": unit, "meaning": meaning} for name, unit, meaning in list_rule_metrics()]
        print_json({"schema": "fairlead.rules.metrics/1", "metrics": rows})
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("metric", "unit"):
        table.add_column(name, no_wrap=True)
    table.add_column("meaning", ratio=1)
    for row in list_rule_metrics():
        table.add_row(*row)
    _print(table)


def _load(site: Path | None) -> tuple[list[Rule], dict[str, str]]:
    """Rules by category and id, and where each comes from: `built-in` or `site`."""
    from fairlead.explain.rules.rule_set import load_rule_set

    built_in = load_rule_set()
    all_rules = load_rule_set(site) if site is not None else built_in
    origin = {name: "built-in" if built_in.get(name) == rule else "site" for name, rule in all_rules.items()}
    return sorted(all_rules.values(), key=lambda r: (r.category.lower(), r.id)), origin


def _shown(rule: Rule, by_id: dict[str, Rule]) -> list[object]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from fairlead.explain.rules import rule_description as described

    def section(name: str) -> Text:
        return Text(f"\n{name}", style="bold")

    def plain(words: str) -> str:
        return words.replace("`", "")

    parts: list[object] = [
        Text.assemble((rule.id, "bold"), f"  {rule.category}, {plain(described.describe_rule_severity(rule))}."),
        Text(f"“{described.format_rule_template(rule.title)}”"),
        Text(""),
        Text(described.join_rule_lines(rule.about)),
        section("Fires when"),
        Padding(Text(described.join_rule_lines(rule.when)), (0, 0, 0, 2)),
    ]
    if not rule.enabled:
        parts.insert(1, Text("turned off", style="yellow"))
    table = Table(box=None, padding=(0, 2), show_header=False)
    for name, unit, meaning in described.list_used_rule_metrics(rule):
        table.add_row(name, unit, meaning)
    parts += [table, section("Costs"), Padding(Text(plain(described.describe_rule_cost(rule))), (0, 0, 0, 2))]
    if rule.advice:
        parts.append(section("What to do"))
    for advice in rule.advice:
        only = f" [{described.join_rule_lines(advice.when)}]" if advice.when else ""
        text = f"{described.format_rule_template(advice.text)} ({advice.audience}){only}"
        parts += _one_advice(text, advice.code, advice.language)
    for title, names in (
        ("Replaces", [c.rule for c in rule.covers]),
        ("Suppressed if one of these fires", described.describe_covering_rules(by_id, rule.id)),
        ("After", rule.references),
    ):
        if names:
            parts += [section(title), *(Padding(Text(name), (0, 0, 0, 2)) for name in names)]
    return parts


def _one_advice(text: str, code: str | None, language: str | None) -> list[object]:
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    parts: list[object] = [Padding(Text(f"→ {text}"), (0, 0, 0, 2))]
    if code:
        shown = Syntax(code.strip(), language or "text", theme="ansi_dark", background_color="default", word_wrap=True)
        parts.append(Padding(shown, (0, 0, 0, 6)))
    return parts


def _print(*parts: object) -> None:
    from fairlead.cli.piped_console import PipedConsole

    console = PipedConsole(highlight=False, soft_wrap=False)
    for part in parts:
        console.print(part, markup=False)
