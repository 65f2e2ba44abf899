"""Advice: every rule and verdict has it, in words and commands that hold; nothing from outside reaches a command."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from fairlead.cli.main import COMMANDS, cli
from fairlead.cli.noun import Noun
from fairlead.core.errors import ConfigError
from fairlead.explain.analysis.advice import (
    AUDIENCES,
    FACTS,
    KNOWN,
    AdviceSet,
    Entry,
    Gain,
    build_advice,
    list_advice_placeholders,
    select_advice,
)
from fairlead.explain.rules.advice_set import (
    check_advice_set,
    load_advice_set,
    read_builtin_advice,
)

ENTRIES = [(name, one) for name, found in read_builtin_advice().items() for one in found.advice]
COMMAND_LINES = sorted(
    {
        line.partition(" #")[0].strip()
        for _, one in ENTRIES
        for line in (one.code or "").splitlines()
        if line.startswith("fairlead ")
    }
)


def _find_missing_advice(advice: AdviceSet) -> list[tuple[str, str, str]]:
    """(rule, verdict, audience) a finding may have and nothing is said for; `culprit` only where there is one."""
    return [
        (rule, verdict, audience)
        for rule, verdicts in KNOWN.items()
        for verdict in verdicts
        for audience in AUDIENCES
        if (audience != "culprit" or (rule == "job.interference" and verdict != "many_neighbours"))
        and not any(one.audience == audience and not one.needs for one in select_advice(advice, rule, verdict))
    ]


def test_every_rule_and_verdict_has_advice_for_user_and_site() -> None:
    assert set(load_advice_set()) == set(KNOWN)
    assert _find_missing_advice(load_advice_set()) == []
    thinner = {name: [one for one in entries if one.audience != "site"] for name, entries in load_advice_set().items()}
    assert ("component.dead", "unknown", "site") in _find_missing_advice(thinner)


def test_every_file_cites_where_it_is_from() -> None:
    assert not [name for name, found in read_builtin_advice().items() if not found.references]


@pytest.mark.parametrize(("rule", "one"), ENTRIES)
def test_every_placeholder_is_a_fact_and_filled(rule: str, one: Entry) -> None:
    assert set(list_advice_placeholders(one.text)) | set(list_advice_placeholders(one.code or "", code=True)) <= set(
        FACTS
    ), rule
    facts = {name: "abc" if fact.kind == "name" else 3.5 for name, fact in FACTS.items()}
    layer = one.layers[0] if one.layers else None
    for filled in (facts, {}):
        for verdict in one.verdicts or KNOWN[rule]:
            for said in build_advice({rule: [one]}, rule, verdict, filled | dict.fromkeys(one.needs, 1), layer=layer):
                assert "{" not in said.text


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_of_fairlead_exist(line: str) -> None:
    words = shlex.split(line)
    command = cli.get_command(click.Context(cli), words[1]) if words[1] in COMMANDS else None
    assert command is not None, line
    if isinstance(command, Noun):
        command = command.commands[words[2]]
    options = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_what_is_not_known_is_not_made_up() -> None:
    said = build_advice(
        load_advice_set(), "component.degraded", "fail_slow", {"component": "fs-OST0003", "share_of_peak": None}
    )
    site = next(one for one in said if one.audience == "site")
    assert "fs-OST0003 works, but slowly (a part of its peak)" in site.text
    assert "osp.fs-OST0003-osc-MDT" in (site.code or "")


def test_a_hostile_name_reaches_no_command_and_no_terminal() -> None:
    for name in ("x; rm -rf /", "$(reboot)", "a\nb", "-rf", "`id`", "'", "\x1b[2J"):
        for said in build_advice(
            load_advice_set(), "job.interference", "high_iops", {"culprit": name, "component": name}
        ):
            assert name not in (said.code or "")
            assert "\x1b" not in said.text
            assert "\n" not in said.text
        codes = [
            one.code for one in build_advice(load_advice_set(), "job.interference", "high_iops", {"culprit": name})
        ]
        assert any("rate-job:CULPRIT=2000ops" in (code or "") for code in codes)


def test_a_gain_is_promised_only_where_runs_show_it() -> None:
    def told(factor: float, runs: int) -> str:
        gain = Gain(change="mode", factor=factor, runs=runs, basis="N-N runs at this scale")
        return "\n".join(
            one.text for one in build_advice(load_advice_set(), "job.interference", "n_to_1", {}, gains=[gain])
        )

    assert "Your N-N runs at this scale get 4.1x (7 runs)." in told(4.1, 7)
    assert "get" not in told(4.1, 1).partition("N-N runs")[2]
    assert "Your" not in told(1.02, 50)


def test_a_verdict_without_entries_of_its_own_gets_the_general_ones_and_layers_go_first() -> None:
    said = build_advice(load_advice_set(), "component.degraded", "unknown", {"component": "c1"}, layer="forwarder")
    assert [one.audience for one in said] == ["user", "site"]
    assert "fairlead remap" in (said[1].code or "")
    assert build_advice(load_advice_set(), "no.such_rule", "x", {}) == []
    with pytest.raises(KeyError, match="unknown fact in advice: 'jobb'"):
        build_advice(load_advice_set(), "job.own_change", "own", {"jobb": 1})


def _site(tmp_path: Path, text: str, name: str = "job.own_change") -> Path:
    folder = tmp_path / "advice"
    folder.mkdir()
    (folder / f"{name}.toml").write_text(text)
    return tmp_path


def test_a_site_replaces_what_it_names_or_adds(tmp_path: Path) -> None:
    text = 'rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = "Call 4711 about job {job}."\n'
    site = _site(tmp_path, text)
    said = build_advice(load_advice_set(site), "job.own_change", "own", {"job": "9"})
    assert [one.text for one in said if one.audience == "user"] == ["Call 4711 about job 9."]
    assert any(one.audience == "site" for one in said)
    (site / "advice" / "job.own_change.toml").write_text("add = true\n" + text)
    users = [one for one in build_advice(load_advice_set(site), "job.own_change", "own", {}) if one.audience == "user"]
    assert len(users) == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('rule = "job.own"\nadvice = []', "no finding has the rule 'job.own'"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = "{jib}"', "there is no fact {jib}"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = " "', "is empty"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "boss"\ntext = "x"', "boss"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = "x"\nverdict = ["own"]', "verdict"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = "x"\nverdicts = ["n_to_1"]', "none of them"),
        ('rule = "job.own_change"\n[[advice]]\naudience = "user"\ntext = "Ask {culprit_user}"', "somebody else"),
        ('rule = "component.dead"\nadvice = []', "rule: is 'component.dead'"),
        ("rule = ", "not TOML"),
    ],
)
def test_a_faulty_file_is_named_with_its_key(tmp_path: Path, text: str, fault: str) -> None:
    site = _site(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_advice_set(site)
    assert fault in str(raised.value)
    assert "job.own_change.toml" in str(raised.value)
    sound, faults = check_advice_set(site / "advice")
    assert not sound
    assert len(faults) == 1
