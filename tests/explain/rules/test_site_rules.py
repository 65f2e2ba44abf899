"""A site's folder of rules: what it adds, overrides and turns off, and how its faults are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.core.errors import ConfigError
from fairlead.explain.analysis.profile import build_profile
from fairlead.explain.rules.rule_engine import evaluate_rules
from fairlead.explain.rules.rule_set import check_rule_set, load_rule_set
from job_building import SHARED, counters, job, sizes

GOOD = """
id = "mine"
title = "{write_ops} writes"
category = "library"
severity = "info"
when = "write_ops > 100"
about = "Words."
[[evidence]]
text = "{write_bytes}"
metric = "write_bytes"
[examples.fires]
write_ops = 101
[examples.quiet]
write_ops = 100
"""


def fired(site: Path) -> set[str]:
    rows = [
        counters(
            1, SHARED, bytes_written=1 << 24, writes=4096, write_time_s=20.0, write_sizes=sizes(small=4096), seeks=5000
        )
    ]
    findings, _ = evaluate_rules(load_rule_set(site), build_profile(job(rows)))
    return {one.rule for one in findings} | {name for one in findings for name in one.covers}


def put(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_empty_folder_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("not a rule")
    assert load_rule_set(tmp_path) == load_rule_set()
    assert check_rule_set(tmp_path) == ([], [])


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    put(tmp_path, mine=GOOD)
    assert check_rule_set(tmp_path) == (["mine"], [])
    assert "mine" in fired(tmp_path)


def test_an_override_gives_only_what_differs(tmp_path: Path) -> None:
    assert "small_writes" in fired(tmp_path)
    put(tmp_path, small_writes='id = "small_writes"\nwhen = "write_ops > 1000000"\n')
    changed, built_in = load_rule_set(tmp_path)["small_writes"], load_rule_set()["small_writes"]
    assert changed.when == "write_ops > 1000000"
    assert (changed.title, changed.advice, changed.references) == (built_in.title, built_in.advice, built_in.references)
    assert "small_writes" not in fired(tmp_path)
    assert check_rule_set(tmp_path) == (["small_writes"], [])


def test_an_override_of_a_list_replaces_it_whole(tmp_path: Path) -> None:
    put(tmp_path, small_writes='id = "small_writes"\nadvice = [{ text = "Ask us." }]\n')
    assert [one.text for one in load_rule_set(tmp_path)["small_writes"].advice] == ["Ask us."]


def test_turning_one_off(tmp_path: Path) -> None:
    assert "seek_heavy" in fired(tmp_path)
    put(tmp_path, seek_heavy='id = "seek_heavy"\nenabled = false\n')
    assert "seek_heavy" not in fired(tmp_path)


def test_a_rule_that_covers_one_turned_off_still_fires(tmp_path: Path) -> None:
    put(tmp_path, small_writes='id = "small_writes"\nenabled = false\n')
    assert "shared_small_writes" in fired(tmp_path)
    assert "small_writes" not in fired(tmp_path)


FAULTS = [
    (
        "when = ",
        'when = "write_opps > 100"',
        "when: no metric is called 'write_opps', but there is 'write_ops'",
        "metrics",
    ),
    ("when = ", 'when = "__import__(1)"', "when: not allowed", "metrics"),
    ("when = ", "when = \"write_ops > 'a'\"", "when: .* compares a number with a word", "metrics"),
    ("when = ", 'when = "write_ops"', "when: is a number, where a comparison is needed", "metrics"),
    ("when = ", "when = 5", r"when: Expected `str`, got `int`", "page on writing rules"),
    ("when = ", "", "missing required field `when`", "page on writing rules"),
    ("title = ", 'title = "{write_opps} writes"', "title: no metric is called 'write_opps'", "metrics"),
    ("title = ", 'title = "{Write Ops} writes"', "title: .* is no placeholder", "write {metric}"),
    ("title = ", 'title = "{write_ops|write|writes}"', "title: .* is no placeholder", "write {metric}"),
    ("title = ", 'title = " "', "title: is empty", "one line"),
    ("severity = ", 'severity = "terrible"', r"severity: Invalid enum value 'terrible'", "page on writing rules"),
    ("category = ", 'category = "x"\ncolour = "red"', "contains unknown field `colour`", "page on writing rules"),
    ("category = ", 'category = "x"\ncost = "money"', "cost: no cause is called 'money'", "causes: .*imbalance"),
    ("category = ", 'category = "x"\nconfidence = 7', "confidence: 7.* not between 0 and 1", "0 to 1"),
    (
        "category = ",
        'category = "x"\ncovers = [{ rule = "mine" }]',
        r"covers\[0\].rule: a rule cannot cover itself",
        "general",
    ),
    (
        "category = ",
        'category = "x"\ncovers = [{ rule = "nope" }]',
        r"covers\[0\].rule: there is no rule 'nope'",
        "list",
    ),
    (
        "category = ",
        'category = "x"\ncovers = [{ rule = "small_writes", when = "b" }]',
        r"covers\[0\].when: no metric",
        "metrics",
    ),
    (
        "category = ",
        'category = "x"\nsteps = [{ severity = "info", when = "b" }]',
        r"steps\[0\].when: no metric",
        "metrics",
    ),
    (
        "category = ",
        'category = "x"\nadvice = [{ text = "x", audience = "boss" }]',
        r"advice\[0\].audience: Invalid",
        "page",
    ),
    (
        "category = ",
        'category = "x"\nadvice = [{ text = "{b}" }]',
        r"advice\[0\].text: no metric is called 'b'",
        "metrics",
    ),
    ("metric = ", 'metric = "b"', r"evidence\[0\].metric: no metric is called 'b'", "metrics"),
    ("metric = ", 'files = "b"', r"evidence\[0\].files: no file column 'b'", "columns: .*write_bytes"),
    ("metric = ", 'ranks = "all"', r"evidence\[0\].ranks: Invalid enum value 'all'", "page"),
    ("write_ops = 101", "write_opps = 101", "examples.fires: no metric is called 'write_opps'", "metrics"),
    ("id = ", 'id = "Mine Own"', "id: 'Mine Own' is no name", "lower-case"),
    ("about = ", "about = Words", "not TOML: .*line", "mend the line"),
]


@pytest.mark.parametrize(("line", "instead", "what", "remedy"), FAULTS)
def test_a_fault_is_named_with_file_key_and_remedy(
    line: str, instead: str, what: str, remedy: str, tmp_path: Path
) -> None:
    text = "\n".join(instead if one.startswith(line) else one for one in GOOD.splitlines())
    put(tmp_path, mine=text)
    with pytest.raises(ConfigError, match=what) as caught:
        load_rule_set(tmp_path)
    assert caught.value.where == str(tmp_path / "mine.toml")
    assert caught.value.exit_code == 5
    sound, faults = check_rule_set(tmp_path)
    assert sound == []
    assert str(caught.value) in [str(fault) for fault in faults]
    assert re.search(remedy, str(caught.value.remedy))


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    put(
        tmp_path,
        mine=GOOD.replace("write_ops > 100", "b > 100").replace("{write_bytes}", "{c}"),
        other="id = 5\n",
        fine=GOOD.replace('"mine"', '"fine"'),
    )
    sound, faults = check_rule_set(tmp_path)
    assert sound == ["fine"]
    assert [Path(str(f.where)).name for f in faults] == ["mine.toml", "mine.toml", "other.toml"]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("write_ops = 99", r"examples.fires: the rule stays quiet"),
        ("write_bytes = 99", r"examples.fires: the rule cannot be decided"),
    ],
)
def test_check_tries_the_examples(given: str, what: str, tmp_path: Path) -> None:
    put(tmp_path, mine=GOOD.replace("write_ops = 101", given))
    sound, faults = check_rule_set(tmp_path)
    assert sound == []
    assert len(faults) == 1
    with pytest.raises(ConfigError, match=what):
        raise faults[0]
    assert "mine" in load_rule_set(tmp_path)


def test_rules_that_cover_each_other_would_both_be_silent(tmp_path: Path) -> None:
    put(tmp_path, small_writes='id = "small_writes"\ncovers = [{ rule = "shared_small_writes" }]\n')
    with pytest.raises(ConfigError, match="covers itself by way of others"):
        load_rule_set(tmp_path)
    sound, faults = check_rule_set(tmp_path)
    assert sound == []
    assert faults


def test_the_file_is_named_after_the_rule(tmp_path: Path) -> None:
    put(tmp_path, yours=GOOD)
    with pytest.raises(ConfigError, match=r"name the file mine\.toml"):
        load_rule_set(tmp_path)
    assert len(check_rule_set(tmp_path)[1]) == 1


def test_no_such_folder(tmp_path: Path) -> None:
    for call in (load_rule_set, check_rule_set):
        with pytest.raises(ConfigError, match="no such folder"):
            call(tmp_path / "nowhere")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'id = "\xff\xfe"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_rule_set(tmp_path)
    (tmp_path / "mine.toml").unlink()
    (tmp_path / "mine.toml").mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        load_rule_set(tmp_path)
