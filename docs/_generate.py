"""Writes the reference pages that are made from the code: `python docs/_generate.py` (make docs-generate).

A test regenerates them and fails when a page in the tree differs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import click
from msgspec import Struct, inspect

from fairlead.cli.main import BROKEN_PIPE, COMMANDS, INTERRUPTED, cli
from fairlead.cli.noun import RENAMED
from fairlead.core import errors
from fairlead.core.model.tables import TABLES
from fairlead.explain.analysis.advice import CHANGES, FACTS
from fairlead.explain.rules import rule_description as described
from fairlead.explain.rules.advice_set import read_builtin_advice
from fairlead.explain.rules.rule import FILE_COLUMNS, Rule
from fairlead.explain.rules.rule_set import load_rule_set
from fairlead.show.report import schema as report_contract

DOCS = Path(__file__).resolve().parent
MADE = "<!-- Made by docs/_generate.py from the code: change it there. -->\n"
PIPE = "\\|"
"""A bar inside a cell of a table."""

_CLI_INTRO = """\
Daily verbs first, then nouns with their verbs. Results on stdout, messages on stderr; `--json` is stable and versioned
by its `schema`. The [exit code](exit-codes.md) says how a command ended."""
_RENAMED_INTRO = """\
Commands of earlier versions and what they are now. An old one ends with exit code 2 and names the new one. Why:
[one tree of commands](../decisions/0039-one-tree-of-commands.md)."""
_EXIT_INTRO = """\
Wrong input never causes a traceback: the last lines on stderr say what is wrong, where, and after an arrow what to do
next. A traceback is a defect of fairlead; please report it."""
_RECORDS_INTRO = """\
All data fairlead reads becomes rows of these tables, as Arrow columns. Times are signed 64-bit nanoseconds since 1970
UTC, sizes are bytes, and a name ends with its unit. A null means *not known*, never zero. A schema only grows: new
columns are nullable and raise the version."""
_JSON_INTRO = """\
`fairlead report --json FILE` (or `-` for stdout) writes one document. Its `schema` names the type:

| `schema` | written for | type |
|---|---|---|
{documents}

The same is available as a [JSON Schema](report.schema.json), generated from the structs in the code.

- **Stable.** Within a number (`/1`) fields may be added, never renamed, removed or given another meaning. A reader
  skips fields it does not know.
- **Null is not zero.** Null means *not known from this input*; `missing` says why. Every field is always there.
- **Names** in `metrics` and `summary` are those of [Metrics](metrics.md), rules those of [Rules](rules/index.md).
- **Units** are at the end of a name: `_ns` nanoseconds (absolute ones since 1970 UTC), `_s` seconds, `_bytes`,
  `_bytes_per_s`; a share runs from 0 to 1. Integers may exceed 2⁵³: read them as 64-bit.
- **Text is data.** Names of files, programs and users are as in the trace, including control characters (as JSON
  escapes). A program that prints them to a terminal must sanitise them.
- **Only reported inputs.** Inputs that could not be read are listed on stderr, not in the document, and the
  [exit code](exit-codes.md) is 4. If nothing could be reported, nothing is written."""
_RULES_INTRO = """\
A rule has a condition over [metrics](../metrics.md), an explanation, evidence and advice. Findings are ordered by the
seconds they cost the run. If several rules match one problem, only the most specific one is reported. A site can add
rules, change these or turn them off: see [write a rule](../../howto/write-a-rule.md).
`fairlead report TRACE --explain RULE` shows how a rule was evaluated for a job."""
_METRICS_INTRO = """\
Metrics are computed from a job and can be used in [rules](rules/index.md). A metric that the trace does not contain is
*unknown*, never zero. `fairlead report TRACE --json -` prints all of them under `metrics`; `fairlead rule metrics`
lists them."""
_COSTS_INTRO = """\
Seconds of the run lost to a cause, as far as they can be estimated. They overlap (a small request may also be random):
each is the time that fixing only that cause could save."""
_ADVICE_INTRO = """\
The advice for findings about jobs, components and the system is data: one TOML file per rule. The audience `user` owns
the affected job, `culprit` owns the disturbing job, `site` runs the machine. Words in braces are replaced by facts of
the finding. A site's rules directory may contain a directory `advice` with such files. Their entries replace those of
the same verdict and audience; with `add = true` they are added after them. `fairlead rule check DIR` checks them;
`fairlead rule advice --rules DIR` lists the result. Commands contain only names that need no shell quoting. Other names
and unknown facts stay as words in capitals, for you to fill in. Doubled braces in code stand for one."""
_FACTS_INTRO = "Names that a text may use in braces."
_GAINS_INTRO = """\
An entry with `gain` ends with the measured effect of that change on this site: "Your N-N runs of this program at this
scale get 4.1x (7 runs)". It is given only if the runs of the same category show it: at least three runs each way, and
more than by chance."""
_COLUMNS_INTRO = "Columns by which `files` in a rule's evidence can rank a job's files; the first five are shown."

ROW_IS = {
    "ops": "a run of client operations: same operation, file, handle and size, constant stride. Operation *k* of "
    "`count` has offset `offset + k * stride`; `start_ns` is the first start, `end_ns` the last end, `busy_ns` the sum "
    "of durations",
    "files": "a path seen; `file_id` is the id every other table uses",
    "file_counters": "the counters of one file, rank and interface in a trace. Rank -1 stands for all ranks of "
    "the job together. `read_sizes` and `write_sizes` hold ten counts, by request size",
    "heatmap": "the bytes of one rank in one time bin",
    "layouts": "one component of a file's striping",
    "forwarder": "one interval on a forwarding server, per class of operation and job",
    "pfs_client": "one interval of one file system client and one storage target",
    "target": "one interval of one storage target (OST, brick, disk)",
    "metadata": "one interval of one metadata server, client and operation",
    "port": "one interval of one network port",
    "device": "one interval of one burst-buffer or node-local device",
    "events": "something that happened to a component: an eviction, a rebuild, a maintenance window, a gap in probing",
    "jobs": "a job; its key is (`cluster`, `job_id`, `start_ns`), as schedulers reuse numbers",
    "mapping": "one assignment and its period: node to forwarder, file to targets, job to pool",
    "health": "the health of one probe on a node in one interval; the probe `agent` is the agent as a whole. `state` "
    "is ok, missing, failing, late or lost",
    "usage": "the space a user, group or project used at one time on a target (`target` null: on the whole file "
    "system), or its hard limit",
    "rollup": "a sum over one interval (1 s, 1 min or 1 h, beginning at `ts_ns`) of one component as one layer counts "
    "it. Rows are partial: rows of one key are summed, `_max` columns by their maximum. `kind` is job, node, "
    "forwarder, target, mds, port, device or client_class; `layer` is client, forwarder, pfs_client, target, metadata, "
    "port or device. `job_id` is set on parts of a component's sum",
    "op_groups": "a set of similar runs of several nodes (same second, job, interface, file system, operation, size, "
    "stride and count); values that differ are lists by member. The view `ops` has the members as separate rows",
    "job_summary": "the I/O of one job; if there are several rows for one job, the one with the latest `made_ns` is "
    "used. `basis` is the layer of its figures, `estimated` lists the columns that were split by share and not counted",
    "phase": "one phase of I/O of a job, and how it compares with earlier runs of its category",
    "profile": "typical figures of the runs of one category (user, program, scale)",
    "finding": "one finding: subject, time, confidence, cause and advice",
    "incident": "a component that was sick for a time",
    "experiment": "a completed simulated experiment: its spec, or the results of a paper's experiment",
    "simulation": "one simulated set of applications under one policy, and its measures",
}


def cli_page() -> str:
    """Every command with its arguments and options."""
    parts = [
        "# Command line",
        MADE.rstrip(),
        _CLI_INTRO,
        "## fairlead",
        *_described(cli),
        *_options(cli),
    ]
    context = click.Context(cli, info_name="fairlead")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            raise LookupError(f"no command {name}")
        parts += _command(command, f"fairlead {name}", 2)
    rows = [(f"`fairlead {old}`", f"`fairlead {new}`") for old, new in RENAMED.items()]
    parts += ["## Renamed commands", _RENAMED_INTRO, _rows(("earlier", "now"), rows)]
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}"
    arguments = [p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)]
    inner = ["COMMAND ..."] if isinstance(command, click.Group) else []
    yield "```text\n" + " ".join([path, "[OPTIONS]", *arguments, *inner]) + "\n```"
    yield from _described(command)
    yield from _options(command)
    if isinstance(command, click.Group):
        for name, verb in sorted(command.commands.items()):
            yield from _command(verb, f"{path} {name}", level + 1)


def _described(command: click.Command) -> Iterator[str]:
    """The help text, in paragraphs. A paragraph after click's \\b mark keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        if paragraph.startswith("\b"):
            yield "```text\n" + paragraph.removeprefix("\b").strip("\n") + "\n```"
        elif paragraph:
            yield " ".join(paragraph.split())


def _options(command: click.Command) -> Iterator[str]:
    rows = []
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        value = "" if option.is_flag or option.count else f" `{option.make_metavar(click.Context(command))}`"
        text = [option.help or "", "May be given several times." if option.multiple else "", _defaults(option)]
        rows.append(f"| {names}{value.replace('|', PIPE)} | {_cell(' '.join(part for part in text if part))} |")
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *rows])


def _defaults(option: click.Option) -> str:
    """Where a value comes from when the option is not given."""
    variable = f"Environment: {option.envvar}." if isinstance(option.envvar, str) else ""
    shown = option.show_default and isinstance(option.default, str | int | float) and not option.is_flag
    return " ".join(part for part in (variable, f"Default: {option.default}." if shown else "") if part)


def exit_codes_page() -> str:
    """The table of exit codes, from the error classes."""
    classes = sorted(_subclasses(errors.FairleadError), key=lambda kind: (kind.exit_code, len(kind.__mro__)))
    lines = [
        "# Exit codes",
        "",
        MADE,
        _EXIT_INTRO,
        "",
        "| code | error | meaning | retry may help |",
        "|---:|---|---|---|",
        "| 0 | | Success. | |",
        "| 1 | | A defect of fairlead, with a traceback. | |",
    ]
    for kind in classes:
        meaning = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        lines.append(f"| {kind.exit_code} | `{kind.__name__}` | {_cell(meaning)} | {'yes' if kind.retryable else ''} |")
    lines += [
        f"| {INTERRUPTED} | | Interrupted (Ctrl-C). | |",
        f"| {BROKEN_PIPE} | | The reader of stdout closed it, as in `fairlead ... \\| head`. | |",
    ]
    return "\n".join(lines) + "\n"


def _subclasses(kind: type[errors.FairleadError]) -> list[type[errors.FairleadError]]:
    """The error classes of fairlead itself, without the base; a plug-in's own are its own to document."""
    own = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [one for child in own for one in (child, *_subclasses(child))]


def records_page() -> str:
    """The record tables: columns, types, what dates a row."""
    parts = [
        "# Records",
        MADE.rstrip(),
        _RECORDS_INTRO,
    ]
    for spec in TABLES.values():
        facts = [f"Version {spec.version}."]
        if spec.time_column:
            facts.append(f"The time of a row is `{spec.time_column}`.")
        if spec.sort_by:
            facts.append("Sorted by " + ", ".join(f"`{name}`" for name in spec.sort_by) + ".")
        rows = [f"| `{f.name}` | {_type(str(f.type))} | {'' if f.nullable else 'yes'} |" for f in spec.schema]
        table = "\n".join(["| column | type | always known |", "|---|---|---|", *rows])
        parts += [f"## {spec.name}", f"One row is {ROW_IS[spec.name]}.", " ".join(facts), table]
    return "\n\n".join(parts) + "\n"


def rules_page() -> str:
    """All rules by category, a line each."""
    parts = ["# Rules", MADE.rstrip(), _RULES_INTRO]
    by_category = sorted(load_rule_set().values(), key=lambda rule: (rule.category.lower(), rule.id))
    for category, rules in groupby(by_category, key=lambda rule: rule.category):
        rows = [
            (f"[{rule.id}]({rule.id}.md)", rule.severity, described.format_rule_template(rule.title)) for rule in rules
        ]
        parts += [f"## {category[0].upper()}{category[1:]}", _rows(("rule", "worst severity", "observation"), rows)]
    return "\n\n".join(parts) + "\n"


def rule_page(rule: Rule) -> str:
    """One rule: what it means, when it fires, its evidence, what to do, what it is after."""
    metrics = [(f"`{name}`", unit, meaning) for name, unit, meaning in described.list_used_rule_metrics(rule)]
    parts = [
        f"# {rule.id}",
        MADE.rstrip(),
        f"> {_cell(described.format_rule_template(rule.title))}",
        described.join_rule_lines(rule.about),
        f"Category: {rule.category}. Severity: {described.describe_rule_severity(rule)}.",
        f"Cost: {described.describe_rule_cost(rule)}.",
        "## Fires when",
        f"```text\n{described.join_rule_lines(rule.when)}\n```",
        _rows(("metric", "unit", "meaning"), metrics),
        "## Evidence",
        "\n".join(f"- {_cell(described.format_rule_template(one.text))}{_only(one.when)}" for one in rule.evidence),
    ]
    if rule.advice:
        parts.append("## What to do")
    for advice in rule.advice:
        parts.append(f"**{advice.audience}**{_only(advice.when)}: {_cell(described.format_rule_template(advice.text))}")
        if advice.code:
            parts.append(f"```{advice.language or 'text'}\n{advice.code.strip()}\n```")
    if rule.covers:
        names = [f"- [{name}]({name}.md){_only(when)}" for name, when in described.describe_covered_rules(rule)]
        parts += ["## Covers", "More general rules that are not reported when this one fires:", "\n".join(names)]
    above = described.describe_covering_rules(load_rule_set(), rule.id)
    if above:
        parts += ["## Not reported when one of these fires", "\n".join(f"- [{name}]({name}.md)" for name in above)]
    parts += ["## Sources", "\n".join(f"- {_cell(one)}" for one in rule.references)]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """Every metric, cost and file column a rule may use."""
    rows = [(f"`{name}`", unit, meaning) for name, unit, meaning in described.list_rule_metrics()]
    metrics = [row for row in rows if not row[0].startswith("`cost_")]
    columns = [(f"`{name}`", meaning) for name, meaning in FILE_COLUMNS.items()]
    parts = [
        "# Metrics",
        MADE.rstrip(),
        _METRICS_INTRO,
        _rows(("metric", "unit", "meaning"), metrics),
        "## Costs",
        _COSTS_INTRO,
        _rows(("metric", "unit", "meaning"), rows[len(metrics) :]),
        "## File columns",
        _COLUMNS_INTRO,
        _rows(("column", "meaning"), columns),
    ]
    return "\n\n".join(parts) + "\n"


def advice_page() -> str:
    """What is advised, by rule, verdict and audience; and the facts it may speak of."""
    parts = ["# Advice", MADE.rstrip(), _ADVICE_INTRO]
    for rule, found in sorted(read_builtin_advice().items()):
        parts.append(f"## {rule}")
        for one in found.advice:
            verdicts = ", ".join(f"`{word}`" for word in one.verdicts) or "any other verdict"
            only = [f"layer {', '.join(one.layers)}"] if one.layers else []
            only += [f"where {', '.join(f'`{name}`' for name in one.needs)} is known"] if one.needs else []
            parts.append(f"**{one.audience}** ({'; '.join([verdicts, *only])}): {_cell(one.text)}")
            if one.code:
                parts.append(f"```{one.language}\n{one.code.strip()}\n```")
        parts.append("Sources: " + "; ".join(_cell(text) for text in found.references) + ".")
    facts = [(f"`{name}`", fact.kind, fact.meaning, fact.unknown) for name, fact in FACTS.items()]
    parts += ["## Facts", _FACTS_INTRO, _rows(("fact", "kind", "meaning", "while not known"), facts)]
    changes = [(f"`{name}`", meaning) for name, meaning in CHANGES.items()]
    parts += ["## Gains", _GAINS_INTRO, _rows(("change", "meaning"), changes)]
    return "\n\n".join(parts) + "\n"


def report_json_page() -> str:
    """The documents that `fairlead report --json` writes, field by field."""
    when = dict(zip(report_contract.DOCUMENTS, ("one job", "several jobs", "`--compare`"), strict=True))
    documents = "\n".join(
        f"| `{name}` | {when[kind]} | {_linked(kind)} |" for kind, name in report_contract.DOCUMENTS.items()
    )
    parts = ["# JSON of a report", MADE.rstrip(), _JSON_INTRO.format(documents=documents)]
    for kind, meanings in report_contract.MEANINGS.items():
        rows = [
            (f"`{field.encode_name}`", _field_type(kind, field), meanings[field.encode_name])
            for field in report_contract.list_report_schema_fields(kind)
        ]
        parts += [f"## {kind.__name__}", _rows(("field", "type", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _field_type(kind: type[Struct], field: inspect.Field) -> str:
    words = report_contract.list_schema_words(kind, field.encode_name)
    if words is None:
        return _json_type(field.type)
    return " or ".join("null" if word is None else f"`{word}`" for word in words)


def _json_type(kind: inspect.Type) -> str:
    """A type in the words of JSON."""
    match kind:
        case inspect.StructType():
            return _linked(kind.cls)
        case inspect.UnionType():
            names = dict.fromkeys(_json_type(one) for one in kind.types)
            return " or ".join(name for name in names if name != "integer" or "number" not in names)
        case inspect.ListType() | inspect.CollectionType():
            return f"list of {_json_type(kind.item_type)}"
        case inspect.DictType():
            return f"object of {_json_type(kind.value_type)}"
        case inspect.LiteralType():
            return " or ".join(f"`{word}`" for word in kind.values)
        case inspect.NoneType():
            return "null"
    return {"IntType": "integer", "FloatType": "number", "StrType": "string", "BoolType": "true or false"}[
        type(kind).__name__
    ]


def _linked(kind: type) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def report_schema() -> str:
    """The JSON Schema of the same."""
    return json.dumps(report_contract.build_report_schema(), indent=1, ensure_ascii=False) + "\n"


def _only(when: str | None) -> str:
    return f" (when `{described.join_rule_lines(when)}`)" if when else ""


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _type(text: str) -> str:
    """Arrow's own name of a type, without what only concerns the encoding."""
    word = re.sub(r"dictionary<values=(\w+),[^>]*>", r"\1 (dictionary)", text)
    return re.sub(r"list<\w+: (\w+)>", r"list of \1", word).replace("<", "&lt;").replace(">", "&gt;")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", PIPE).replace("<", "&lt;")


PAGES: dict[str, Callable[[], str]] = {
    "reference/cli.md": cli_page,
    "reference/exit-codes.md": exit_codes_page,
    "reference/records.md": records_page,
    "reference/metrics.md": metrics_page,
    "reference/advice.md": advice_page,
    "reference/report-json.md": report_json_page,
    "reference/report.schema.json": report_schema,
    "reference/rules/index.md": rules_page,
    **{f"reference/rules/{rule.id}.md": partial(rule_page, rule) for rule in load_rule_set().values()},
}


def main() -> int:
    """Writes what differs and names it."""
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
