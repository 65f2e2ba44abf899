"""`fairlead rule` as a person and a program meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.explain.rules.rule import NAMES
from fairlead.explain.rules.rule_set import load_rule_set

SITE = Path(__file__).resolve().parents[2] / "examples" / "site_rules"
RULES = load_rule_set()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FAIRLEAD_RULES", raising=False)

    def call(*words: object) -> tuple[int, str, str]:
        code = main(["rule", *map(str, words)])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


def test_list_names_every_rule(run) -> None:
    code, out, _ = run("list")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines() if line.strip()} >= set(RULES)
    assert f"{len(RULES)} rules" in out
    assert "{" not in out


def test_list_as_json(run) -> None:
    code, out, _ = run("list", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == "fairlead.rules/1"
    assert {one["id"] for one in found["rules"]} == set(RULES)
    assert set(found["rules"][0]) == {
        "id",
        "category",
        "severity",
        "title",
        "when",
        "cost",
        "covers",
        "references",
        "origin",
        "enabled",
    }
    assert {one["origin"] for one in found["rules"]} == {"built-in"}


def test_the_sites_rules_are_marked(run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one["id"]: one for one in json.loads(run("list", "--json", "--rules", SITE)[1])["rules"]}
    assert {name for name, one in found.items() if one["origin"] == "site"} == {
        "checkpoint_rewritten",
        "high_metadata_rate",
        "seek_heavy",
    }
    assert found["seek_heavy"]["enabled"] is False
    monkeypatch.setenv("FAIRLEAD_RULES", str(SITE))
    out = run("list")[1]
    assert "(site)  (turned off)" in out
    assert "checkpoint_rewritten" in out


@pytest.mark.parametrize("name", list(RULES))
def test_show_tells_all_of_a_rule(name: str, run) -> None:
    code, out, _ = run("show", name)
    assert code == 0
    words = " ".join(out.split())
    rule = RULES[name]
    assert " ".join(rule.about.split()) in words
    assert " ".join(rule.when.split()) in words
    for one in rule.advice:
        assert "".join((one.code or "").split()) in "".join(out.split())
    for reference in rule.references:
        assert reference in words


def test_show_as_json(run) -> None:
    found = json.loads(run("show", "small_writes", "--json")[1])
    assert (found["schema"], found["id"], found["origin"]) == ("fairlead.rule/1", "small_writes", "built-in")
    assert found["advice"][0]["code"].startswith("MPI_File_write_at_all(")


def test_a_wrong_name_is_a_usage_error_with_a_guess(run) -> None:
    code, out, err = run("show", "small_write")
    assert code == 2
    assert out == ""
    assert "did you mean 'small_writes'?" in err
    assert "fairlead rule list" in err


def test_check_a_sound_folder(run) -> None:
    assert run("check", SITE)[:2] == (0, "3 sound: checkpoint_rewritten, high_metadata_rate, seek_heavy\n")
    found = json.loads(run("check", SITE, "--json")[1])
    assert found["sound"] == ["checkpoint_rewritten", "high_metadata_rate", "seek_heavy"]
    assert found["faults"] == []


def test_check_names_faults_and_ends_with_five(run, tmp_path: Path) -> None:
    (tmp_path / "seek_heavy.toml").write_text('id = "seek_heavy"\nwhen = "seekz > 5"\nenabled = 3\n')
    (tmp_path / "other.toml").write_text("no toml")
    code, out, err = run("check", tmp_path)
    assert code == 5
    assert out == ""
    assert f"{tmp_path / 'seek_heavy.toml'}: enabled: Expected `bool`" in err
    assert f"{tmp_path / 'other.toml'}: not TOML" in err
    assert "2 faults in 2 files" in err
    assert "→" in err
    (tmp_path / "other.toml").unlink()
    code, out, err = run("check", tmp_path, "--json")
    assert code == 5
    found = json.loads(out)
    assert found["sound"] == []
    assert set(found["faults"][0]) == {"file", "what", "remedy"}
    assert err.count("error:") == 1


def test_check_needs_a_folder(run, tmp_path: Path) -> None:
    assert run("check", tmp_path / "nowhere")[0] == 5
    code, out, _ = run("check", tmp_path)
    assert (code, out) == (0, "no rules (.toml files) in this folder\n")


def test_a_faulty_folder_stops_list_and_show(run, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('id = "x"')
    assert run("list", "--rules", tmp_path)[0] == 5
    assert run("show", "small_writes", "--rules", tmp_path)[0] == 5


def test_metrics_lists_every_name(run) -> None:
    code, out, _ = run("metrics")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} >= set(NAMES)
    found = json.loads(run("metrics", "--json")[1])
    assert found["schema"] == "fairlead.rules.metrics/1"
    assert {one["name"] for one in found["metrics"]} == set(NAMES)
    assert all(one["meaning"] and one["unit"] for one in found["metrics"])
