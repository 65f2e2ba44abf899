"""Plans of a made machine as JSON and as commands, word for word as kept beside this file.

Sentences (why, basis) are left out: they may get better without a plan getting another. After a change that is wanted:
`python tests/decide/planning/test_plans.py` writes what comes out now.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from fairlead.core.model.plan import Plans
from fairlead.decide.planning.arriving_jobs import read_arriving_jobs
from fairlead.decide.planning.plan_jobs import plan_jobs, require_sound_plans
from fairlead.decide.planning.render import FORMS, render_plans
from fairlead.decide.planning.site_components import read_site_file
from planning_lake import build, site_file
from questions_site import NOW

KEPT = Path(__file__).resolve().parent / "plans"
JOBS = b"""[
 {"job_id": "901", "user": "ben", "program": "index", "nodes": "n[049-052]"},
 {"job_id": "900", "user": "ada", "program": "cast", "nodes": "n[001-016]"},
 {"job_id": "902", "user": "cyd", "program": "/opt/mono -v", "nodes": "n[041-048]"},
 {"job_id": "903", "user": "new", "program": "tester", "nodes": ["n053", "n054"]}
]"""
POLICIES = ("aiot", "dfra", "static-map")
S = 10**9


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plans]:
    return _made(tmp_path_factory.mktemp("plans"))


def _made(folder: Path) -> dict[str, Plans]:
    lake, site = build(folder / "lake", seconds=360), read_site_file(site_file(folder))
    jobs = read_arriving_jobs(JOBS, "jobs.json")
    return {
        policy: require_sound_plans(plan_jobs(lake, site, jobs, policy=policy, at_ns=NOW, now_ns=NOW + S))
        for policy in POLICIES
    }


def texts(plans: dict[str, Plans]) -> dict[str, str]:
    """File name → what it should hold."""
    found = {f"{policy}.json": _plain(one) for policy, one in plans.items()}
    return found | {f"aiot.{form}": render_plans(plans["aiot"], form) for form in FORMS}


def _plain(plans: Plans) -> str:
    told: dict[str, Any] = msgspec.to_builtins(plans)
    told["missing"] = [text.partition(":")[0] for text in told["missing"]]
    for plan in told["plans"]:
        plan["expected"].pop("basis")
        plan["reasons"] = [reason["what"] for reason in plan["reasons"]]
        plan["missing"] = [text.partition(":")[0] for text in plan["missing"]]
    return msgspec.json.format(msgspec.json.encode(told), indent=1).decode() + "\n"


@pytest.mark.parametrize("name", [*(f"{policy}.json" for policy in POLICIES), *(f"aiot.{form}" for form in FORMS)])
def test_plans_are_as_kept(made: dict[str, Plans], name: str) -> None:
    assert texts(made)[name] == (KEPT / name).read_text(encoding="utf-8")


def test_the_reasons_are_told(made: dict[str, Plans]) -> None:
    for plans in made.values():
        for plan in plans.plans:
            assert plan.reasons
            assert all(len(reason.why.split()) > 2 for reason in plan.reasons)


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        for name, text in texts(_made(Path(folder))).items():
            (KEPT / name).write_text(text, encoding="utf-8")
