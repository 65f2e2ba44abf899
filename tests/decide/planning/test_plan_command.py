"""`fairlead plan` on a made machine: what it grants, what it refuses, hostile input, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import cli
from fairlead.core.errors import ConfigError, InputError, UnsoundPlanError, UsageError
from fairlead.core.model.finding_incident_rows import build_incident_rows
from fairlead.core.model.incident import Incident
from fairlead.core.model.tables import MAPPING, build_table_batch
from fairlead.decide.planning import plan_jobs as planning
from fairlead.decide.planning.live_site import find_live_site
from fairlead.decide.planning.site_components import read_site_file
from fairlead.decide.policies.paths.contract import Grant
from fairlead.store.lake import Lake
from planning_lake import FORWARDERS, RATES, SITE, TARGETS, build, incidents, site_file
from questions_site import DAY, NOW, put

AT = ("--at", str(NOW // 10**9))
ADA = ("--job", "900", "--user", "ada", "--program", "cast", "--node-list", "n[001-016]")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    build(folder / "lake", seconds=360)
    site_file(folder)
    return folder


def run(folder: Path, *words: str, site: bool = True) -> Result:
    where = ("--lake", str(folder / "lake"), *(("--site", str(folder / "site.toml")) if site else ()))
    if words[:1] == ("check",):
        return CliRunner().invoke(cli, ["plan", *words, *where, *AT], env={"COLUMNS": "120"})
    return CliRunner().invoke(cli, ["plan", *where, *AT, *words], env={"COLUMNS": "120"})


def plans(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["schema"] == "fairlead.plan/1"
    return list(told["plans"])


@pytest.mark.parametrize("policy", ["aiot", "dfra", "static-map", "tcpu+greedy-clairvoyant", "mckp+straw", "joint"])
def test_every_policy_makes_a_sound_plan_that_checks_elsewhere(machine: Path, tmp_path: Path, policy: str) -> None:
    result = run(machine, *ADA, "--policy", policy, "--json")
    [one] = plans(result)
    assert one["policy"] == policy
    assert one["reasons"]
    assert not {"fwd05", "fwd08"} & set(one["forwarders"])
    assert "scratch-OST0007" not in one["targets"]
    assert one["expected"]["runs_known"] == 4
    file = tmp_path / "p.json"
    file.write_text(result.stdout, encoding="utf-8")
    assert "1 plan: sound" in run(machine, "check", str(file)).output


def test_text_and_renderings_say_the_same(machine: Path) -> None:
    [one] = plans(run(machine, *ADA, "--json"))
    text = run(machine, *ADA).output
    assert "Job 900, ada's cast, 16 nodes" in text
    assert "nothing was applied" in text
    for why in one["reasons"]:
        assert why["why"][:30] in " ".join(text.split())
    for form in ("lustre", "slurm", "map", "remap"):
        shown = run(machine, *ADA, "--render", form)
        assert shown.exit_code == 0
        assert one["forwarders"][0] in shown.stdout or form == "lustre"
    assert {line.split()[1] for line in run(machine, *ADA, "--render", "map").stdout.splitlines()} == set(
        one["forwarders"]
    )


def test_jobs_that_arrive_together_see_each_others_grants(machine: Path, tmp_path: Path) -> None:
    """Two metadata-heavy jobs: each is alone on forwarders nobody uses; the third finds none of them left."""
    jobs = [
        {"job_id": str(k), "user": "ben", "program": "index", "nodes": f"n0{40 + 4 * k:02d},n0{41 + 4 * k:02d}"}
        for k in (1, 2, 3)
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(jobs), encoding="utf-8")
    made = plans(run(machine, "--job-file", str(file), "--policy", "dfra", "--json"))
    alone = [set(one["forwarders"]) for one in made if one["isolated"]]
    assert len(alone) >= 2
    assert not alone[0] & alone[1]
    assert all(not alone[0] & set(one["forwarders"]) for one in made[1:])
    # Of a file of plans made before, the same is known in a later call.
    file.write_text(json.dumps(jobs[:1]), encoding="utf-8")
    first = run(machine, "--job-file", str(file), "--policy", "dfra", "--json")
    kept = tmp_path / "granted.json"
    kept.write_text(first.stdout, encoding="utf-8")
    file.write_text(json.dumps(jobs[1:2]), encoding="utf-8")
    [after] = plans(run(machine, "--job-file", str(file), "--policy", "dfra", "--granted", str(kept), "--json"))
    assert not set(plans(first)[0]["forwarders"]) & set(after["forwarders"])


def test_what_the_site_bars_depends_on_who_asks(tmp_path: Path) -> None:
    """With every other forwarder barred the one that is left to them is granted to who may, and to nobody else."""
    build(tmp_path / "lake", seconds=120)
    bar = '[[planning.barred]]\nwhy = "tried out"\ncomponents = "fwd[01-07]"\n'
    site_file(tmp_path, f"{SITE}\n{bar}")
    job = ("--job", "7", "--program", "cast", "--nodes", "16", "--policy", "tcpu+greedy-clairvoyant", "--json")
    [ada] = plans(run(tmp_path, *job, "--user", "ada"))
    assert ada["forwarders"] == []
    [vis] = plans(run(tmp_path, *job, "--user", "vis"))
    assert vis["forwarders"] == ["fwd08"]


def test_a_job_nobody_knows_is_left_alone_and_it_is_said(machine: Path) -> None:
    [one] = plans(run(machine, "--job", "1", "--node-list", "x[1-3]", "--json"))
    assert {text.partition(":")[0] for text in one["missing"]} >= {"nodes", "history"}
    assert one["expected"]["write_bytes"] is None or one["expected"]["runs_known"] == 0


def test_an_empty_lake_says_what_is_missing(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", create=True)
    for policy in ("aiot", "dfra", "static-map", "tcpu+greedy-clairvoyant"):
        result = run(tmp_path, *ADA, "--policy", policy, "--json", site=False)
        [one] = plans(result)
        assert not one["forwarders"]
        assert not one["targets"]
        told = {text.partition(":")[0] for text in json.loads(result.stdout)["missing"]}
        assert {"site file", "forwarders", "targets", "running jobs"} <= told
    shown = run(tmp_path, *ADA, "--render", "lustre", site=False)
    assert "nothing to change" in shown.stdout


def test_a_site_file_alone_is_enough_to_plan_by(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", create=True)
    site_file(tmp_path)
    result = run(tmp_path, *ADA, "--policy", "static-map", "--json")
    assert plans(result)[0]["default_forwarders"] == ["fwd01", "fwd02"]
    told = json.loads(result.stdout)["missing"]
    assert any(text.startswith("load: no reports") and "8 forwarders" in text for text in told)


def test_when_everything_is_sick_nothing_is_granted(tmp_path: Path) -> None:
    lake = build(tmp_path / "lake", seconds=120, sick=False)
    site_file(tmp_path)
    every = [("forwarder", name) for name in FORWARDERS] + [("target", name) for name in TARGETS]
    put(
        lake,
        build_incident_rows(
            [
                Incident(
                    id=f"bbbb{k:08d}",
                    layer=layer,
                    component=name,
                    from_ns=NOW - DAY,
                    to_ns=None,  # type: ignore[arg-type]
                    kind="dead",
                    confidence=1.0,
                )
                for k, (layer, name) in enumerate(every)
            ],
            NOW,
        ),
        stream="sick",
    )
    for policy in ("aiot", "dfra", "static-map", "tcpu+greedy-clairvoyant"):
        [one] = plans(run(tmp_path, *ADA, "--policy", policy, "--json"))
        assert not one["forwarders"]
        assert not one["targets"]
        assert any("sick" in text for text in (*one["missing"], *(why["why"] for why in one["reasons"])))


def test_an_unsound_plan_is_not_printed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        def grant(self, *_: object) -> Grant:
            return Grant(forwarders=(4, 99), targets=(7,), stripe_bytes=1000, metadata_share=2.0)

    class Sloppy:
        def grant(self, *_: object) -> Grant:
            return Grant(forwarders=(4, 7), targets=(7,), stripe_bytes=1000, metadata_share=2.0)

    monkeypatch.setattr(planning, "_find_path_policy", lambda _: Sloppy())
    for words in (("--json",), (), ("--render", "lustre")):
        result = run(machine, *ADA, *words)
        assert isinstance(result.exception, UnsoundPlanError)
        assert result.exception.exit_code == 11
        assert result.stdout == ""
        said = str(result.exception)
        for part in (
            "fwd05: it is sick",
            "fwd08: not allowed by the site",
            "scratch-OST0007: it is sick",
            "1000",
            "2.0",
        ):
            assert part in said
    monkeypatch.setattr(planning, "_find_path_policy", lambda _: Careless())
    assert isinstance(run(machine, *ADA).exception, IndexError), "a broken policy is a defect, not a message"


def _checked(machine: Path, tmp_path: Path, change: dict[str, object]) -> Result:
    told = json.loads(run(machine, *ADA, "--json").stdout)
    told["plans"][0].update(change)
    file = tmp_path / "p.json"
    file.write_text(json.dumps(told), encoding="utf-8")
    return run(machine, "check", str(file), "--json")


@pytest.mark.parametrize(
    ("change", "field", "component"),
    [
        ({"forwarders": ["fwd05"]}, "forwarders", "fwd05"),
        ({"forwarders": ["nope"]}, "forwarders", "nope"),
        ({"forwarders": ["fwd08"]}, "forwarders", "fwd08"),
        ({"stripe_bytes": 65537}, "stripe_bytes", ""),
        ({"forwarders": [f"fwd{k:02d}" for k in range(1, 9)] * 9}, "forwarders", "fwd01"),
        ({"stripe_count": 10**18}, "stripe_count", ""),
        ({"metadata_share": -1e308}, "metadata_share", ""),
        ({"pool": "a" * 100}, "pool", ""),
        ({"targets": ["scratch-OST0007"]}, "targets", "scratch-OST0007"),
        ({"isolated": True, "forwarders": ["fwd03"]}, "isolated", "fwd03"),
        ({"state_ns": 2**62}, "state_ns", ""),
    ],
)
def test_check_names_field_and_component(
    machine: Path, tmp_path: Path, change: dict[str, object], field: str, component: str
) -> None:
    result = _checked(machine, tmp_path, change)
    assert isinstance(result.exception, UnsoundPlanError)
    told = json.loads(result.stdout)
    assert told["schema"] == "fairlead.plan.check/1"
    assert any(one["field"] == field and component in one["component"] and one["reason"] for one in told["violations"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"schema": 1}',
        b'"x"',
        b"NaN",
        b'{"policy":"a","state_ns":0,"made_ns":0,"plans":[{"policy":"a"}]}',
        b'{"policy":"a","state_ns":0,"made_ns":0,"plans":[],"more":1}',
        b'{"schema":"fairlead.plan/2","policy":"a","state_ns":0,"made_ns":0}',
        b'{"policy":"a","state_ns":99999999999999999999999999,"made_ns":0}',
    ],
)
def test_hostile_plans_are_refused_in_words(machine: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(content)
    result = run(machine, "check", str(file))
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 3
    assert str(file) in str(result.exception)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a job file"),
        (b"[]", "no job in it"),
        (b"[{}]", "job_id"),
        (b'[{"job_id": ""}]', "job_id"),
        (b'[{"job_id": "1", "node_count": 0}]', "node_count"),
        (b'[{"job_id": "1", "node_count": -5}]', "node_count"),
        (b'[{"job_id": "1", "node_count": 1e99}]', "node_count"),
        (b'[{"job_id": "1", "sudo": true}]', "sudo"),
        (b'[{"job_id": "1", "cores": -1}]', "cores"),
        (b'[{"job_id": "1"}, {"job_id": "1"}]', "twice"),
        (b'[{"job_id": "1", "nodes": "n[1-99999999]"}]', "hosts"),
        (b'[{"job_id": "1", "nodes": "n[1-"}]', "host list"),
        (b'[{"job_id": "1", "nodes": ["a", "a"]}]', "twice"),
        (b'[{"job_id": "1", "nodes": "a,b", "node_count": 3}]', "3"),
        (b"\xff", "not a job file"),
        (b"[" * 100_000, "not a job file"),
    ],
)
def test_hostile_jobs_are_refused_naming_the_field(machine: Path, tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_bytes(content)
    result = run(machine, "--job-file", str(file))
    assert isinstance(result.exception, InputError | UsageError)
    assert says in str(result.exception)


def test_wrong_calls(machine: Path, tmp_path: Path) -> None:
    for words, says in (
        ((), "no job to plan for"),
        ((*ADA, "--policy", "aiott"), "aiot"),
        ((*ADA, "--policy", "tcpu+no"), "unknown policy"),
        ((*ADA, "--policy", "nosuch+greedy-clairvoyant"), "unknown policy"),
        ((*ADA, "--policy", ""), "unknown policy"),
        ((*ADA, "--nodes", "3"), "16 are named"),
        (("--job", "1", "--nodes", "0"), "node_count"),
        (("--job", "1", "--nodes", "99999999999"), "node_count"),
        ((*ADA, "--job-file", "x"), "exclude each other"),
        ((*ADA, "--json", "--render", "map"), "exclude each other"),
        ((*ADA, "--file-system", "nope"), "nope"),
        (("--job", "1", "--nodes", "2", "--user", "ada", "--program", "cast", "--render", "map"), "not known"),
        ((*ADA, "--granted", str(tmp_path / "none.json")), "cannot be read"),
        (("--job-file", str(tmp_path)), "cannot"),
    ):
        result = run(machine, *words)
        assert isinstance(result.exception, UsageError | InputError), (words, result.output)
        assert says in str(result.exception), str(result.exception)
    ahead = CliRunner().invoke(cli, ["plan", "--lake", str(machine / "lake"), *ADA, "--at", "2200-01-01"])
    assert "must not be in the future" in str(ahead.exception)


def test_a_job_id_that_breaks_out_is_refused(machine: Path) -> None:
    for evil in ("1\nreboot", "-rf", "$(id)", "a b"):
        result = run(machine, f"--job={evil}", "--user", "ada", "--program", "cast", "--nodes", "16")
        assert isinstance(result.exception, UnsoundPlanError)
        assert "job.job_id" in str(result.exception)


def test_plans_of_one_program_in_another_folder_share_its_history(machine: Path) -> None:
    one = plans(
        run(machine, "--job", "1", "--user", "ada", "--program", "/opt/new/cast --fast", "--nodes", "16", "--json")
    )
    assert one[0]["expected"]["runs_known"] == 4


def test_incidents_of_the_past_bar_nothing(tmp_path: Path) -> None:
    lake = build(tmp_path / "lake", seconds=120, sick=False)
    site = read_site_file(site_file(tmp_path, SITE))
    over = [msgspec.structs.replace(one, to_ns=NOW - DAY // 2) for one in incidents()]
    put(lake, build_incident_rows(over, NOW), stream="past")
    assert not find_live_site(lake, site, NOW, NOW).site.forwarders.sick.any()
    put(lake, build_incident_rows(incidents(), NOW + 1), stream="open")
    seen = find_live_site(lake, site, NOW, NOW).site
    assert [name for name, sick in zip(seen.forwarders.names, seen.forwarders.sick, strict=True) if sick] == ["fwd05"]
    assert [name for name, sick in zip(seen.targets.names, seen.targets.sick, strict=True) if sick] == [
        "scratch-OST0007"
    ]


def test_the_live_state_is_what_was_counted(tmp_path: Path) -> None:
    """Loads are shares of the peak; who runs is where it was counted; silence is not idleness."""
    lake = build(tmp_path / "lake", seconds=360)
    site = read_site_file(site_file(tmp_path))
    seen = find_live_site(lake, site, NOW, NOW)
    forwarders = dict(zip(seen.site.forwarders.names, seen.site.forwarders.load.tolist(), strict=True))
    for name in FORWARDERS:
        assert forwarders[name] == pytest.approx(RATES.get(name, 0.0) / 2.5e9, abs=0.01)
    assert dict(zip(FORWARDERS, seen.site.forwarders.jobs.tolist(), strict=True)) == {
        name: int(name in ("fwd03", "fwd04")) for name in FORWARDERS
    }
    assert {job.job_id: [FORWARDERS[at] for at in job.forwarders] for job in seen.running} == {
        "500": ["fwd03"],
        "501": ["fwd04"],
    }
    assert seen.file_system == "scratch"
    assert seen.site.servers is not None
    assert seen.site.servers.names == ("oss1", "oss2")
    later = find_live_site(lake, site, NOW + DAY // 24, NOW + DAY // 24)
    assert np.isnan(later.site.forwarders.load).all()
    assert any(text.startswith("load: no reports") for text in later.missing)


def test_a_component_may_be_kept_for_a_job(tmp_path: Path) -> None:
    lake = build(tmp_path / "lake", seconds=60)
    site_file(tmp_path)
    kept = {"from_ns": [NOW - DAY], "to_ns": [None], "kind": ["reserved"], "a": ["fwd06"], "b": ["4711"]}
    put(lake, build_table_batch(MAPPING, kept), stream="kept")
    job = ("--user", "ada", "--program", "cast", "--nodes", "16", "--policy", "tcpu+greedy-clairvoyant", "--json")
    [other] = plans(run(tmp_path, "--job", "1", *job))
    [owner] = plans(run(tmp_path, "--job", "4711", *job))
    assert "fwd06" not in other["forwarders"]
    assert len(owner["forwarders"]) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[planning]\nforwarder_counts = []", "forwarder_counts"),
        ("[planning]\nstripe_counts = [0]", "stripe_counts"),
        ("[planning]\nmagic = 1", "magic"),
        ('[[planning.barred]]\ncomponents = "fwd01"', "why"),
        ('[[planning.barred]]\nwhy = "x"\ncomponents = "fwd[1-"', "planning.barred[0].components"),
        ('[[planning.pools]]\nname = "p"\ntargets = "a[2-1]"', "planning.pools[0].targets"),
        ("\x00", "site.toml"),
    ],
)
def test_a_wrong_site_file_is_refused_naming_the_key(tmp_path: Path, text: str, says: str) -> None:
    Lake.open(tmp_path / "lake", create=True)
    site_file(tmp_path, text)
    result = run(tmp_path, *ADA)
    assert isinstance(result.exception, ConfigError)
    assert says in str(result.exception)
