"""The checker of plans: each rule finds what it is for and nothing else does, so none can go unnoticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.core.model.plan import Plan
from fairlead.core.model.site import build_site_layer
from fairlead.decide.policies.paths.checker import RULES, TOGETHER, Reservation, check_path_plans
from plan_building import NOW, TARGETS, ground, of_job, plan

T4, T5, T6, T7 = TARGETS[4:]

BROKEN: list[tuple[str, str, str, Plan]] = [
    ("words", "job.job_id", "\\n", of_job(job_id="42\nreboot")),
    ("words", "job.job_id", "-rf", of_job(job_id="-rf")),
    ("words", "job.job_id", "''", of_job(job_id="")),
    ("words", "job.nodes", "n1 n2", of_job(nodes=["n1 n2", "n2"])),
    ("words", "job.nodes", "`id`", of_job(nodes=["`id`", "n2"])),
    ("words", "file_system", "$(id)", plan(file_system="$(id)", targets=[], pool=None)),
    ("words", "mount", "lfs", plan(mount="lfs")),
    ("words", "hints", "cb\\n", plan(hints={"cb\n": "1"})),
    ("words", "hints", "cb", plan(hints={"cb": "a b"})),
    ("known", "forwarders", "fwd9", plan(forwarders=["fwd1", "fwd9"])),
    ("known", "targets", "lfs-OST0009", plan(targets=[T4, "lfs-OST0009"])),
    ("twice", "targets", T4, plan(targets=[T4, T5, T4])),
    ("twice", "forwarders", "fwd1", plan(forwarders=["fwd1", "fwd1"])),
    ("sick", "forwarders", "fwd5", plan(forwarders=["fwd1", "fwd5"])),
    ("sick", "targets", T7, plan(targets=[T4, T7])),
    ("reserved", "forwarders", "fwd4", plan(forwarders=["fwd1", "fwd4"])),
    ("barred", "forwarders", "fwd6", plan(forwarders=["fwd1", "fwd6"])),
    ("barred", "pool", "vis", plan(targets=list(TARGETS[2:4]), pool="vis", pool_exists=True)),
    ("capacity", "forwarders", "", plan(forwarders=["fwd1", "fwd2", "fwd3"])),
    ("stripe count", "stripe_count", "", plan(stripe_count=0)),
    ("stripe count", "stripe_count", "", plan(stripe_count=-1)),
    ("stripe count", "stripe_count", "", plan(stripe_count=3, targets=[T4, T5, T6])),
    ("stripe count", "stripe_count", "", plan(stripe_count=4)),
    ("stripe count", "stripe_count", "", plan(stripe_count=1 << 40)),
    ("stripe size", "stripe_bytes", "", plan(stripe_bytes=100_000)),
    ("stripe size", "stripe_bytes", "", plan(stripe_bytes=0)),
    ("stripe size", "stripe_bytes", "", plan(stripe_bytes=4 << 30)),
    ("pool", "pool", "sixteen", plan(pool="sixteencharacter")),
    ("pool", "pool", "f 42", plan(pool="f 42")),
    ("pool", "pool", "-p", plan(pool="-p")),
    ("pool", "pool", "flash", plan(pool="flash", pool_exists=True)),
    ("pool", "pool", "nope", plan(pool="nope", pool_exists=True)),
    ("pool", "pool", "f42", plan(targets=[], stripe_count=None)),
    ("pool", "pool", "", plan(pool=None, pool_exists=True)),
    ("file system", "targets", "lfs", plan(file_system="other")),
    ("isolation", "isolated", "fwd3", plan(forwarders=["fwd1", "fwd3"], isolated=True)),
    ("isolation", "isolated", "", plan(forwarders=[], isolated=True)),
    ("prefetch", "prefetch_bytes", "", plan(prefetch_bytes=0)),
    ("prefetch", "prefetch_bytes", "", plan(prefetch_bytes=1 << 50)),
    ("metadata share", "metadata_share", "", plan(metadata_share=1.01)),
    ("metadata share", "metadata_share", "", plan(metadata_share=-0.1)),
    ("metadata share", "metadata_share", "", plan(metadata_share=float("nan"))),
    ("metadata share", "metadata_ops_per_s", "", plan(metadata_ops_per_s=0.0)),
    ("metadata share", "metadata_ops_per_s", "", plan(metadata_share=None)),
    ("data on metadata target", "dom_bytes", "", plan(dom_bytes=1000)),
    ("data on metadata target", "dom_bytes", "", plan(dom_bytes=2 << 30)),
    ("job", "job.node_count", "", of_job(node_count=0, nodes=[])),
    ("job", "job.node_count", "", of_job(node_count=3)),
    ("job", "job.nodes", "", of_job(nodes=["n1", "n1"])),
    ("state", "state_ns", "", plan(state_ns=NOW + 3600 * 10**9)),
    ("state", "state_ns", "", plan(state_ns=-1)),
]
NAMES = [f"{rule}: {where} {k}" for k, (rule, where, _, _) in enumerate(BROKEN)]


def test_a_sound_plan_is_sound() -> None:
    assert check_path_plans([plan()], ground()) == []
    assert check_path_plans([], ground()) == []
    assert check_path_plans([plan(forwarders=[], targets=[], pool=None, stripe_count=None)], ground()) == []


@pytest.mark.parametrize(("rule", "where", "component", "broken"), BROKEN, ids=NAMES)
def test_each_rule_finds_what_it_is_for_and_no_other_does(rule: str, where: str, component: str, broken: Plan) -> None:
    found = check_path_plans([broken], ground())
    assert found, "unsound, and nothing says so"
    assert {one.rule for one in found} == {rule}
    assert where in {one.field for one in found}
    assert any(component in one.component for one in found)
    assert all(one.reason and one.job_id == broken.job.job_id for one in found)
    # With the rule taken out the plan passes: were it ever removed, this test would fail.
    assert check_path_plans([broken], ground(), rules={name: one for name, one in RULES.items() if name != rule}) == []


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _, _, _ in BROKEN} == RULES.keys()


def test_jobs_that_arrive_together_do_not_meet_on_isolated_forwarders() -> None:
    alone = plan(isolated=True, forwarders=["fwd1", "fwd2"])
    other = plan(job=of_job(job_id="43").job, forwarders=["fwd2"], pool="f43")
    [found] = check_path_plans([alone, other], ground())
    assert (found.rule, found.job_id, found.field, found.component) == ("alone", "43", "forwarders", "fwd2")
    both = plan(job=of_job(job_id="43").job, forwarders=["fwd2"], isolated=True, pool="f43")
    assert [one.rule for one in check_path_plans([alone, both], ground())] == ["alone"]
    left = {name: one for name, one in TOGETHER.items() if name != "alone"}
    assert check_path_plans([alone, other], ground(), together=left) == []


def test_a_job_is_planned_once() -> None:
    found = check_path_plans([plan(), plan()], ground())
    assert [(one.rule, one.job_id) for one in found] == [("one plan each", "42")]
    left = {name: one for name, one in TOGETHER.items() if name != "one plan each"}
    assert check_path_plans([plan(), plan()], ground(), together=left) == []


def test_isolated_jobs_leave_a_forwarder_to_the_others() -> None:
    two = build_site_layer("forwarder", ("fwd1", "fwd2"), 2.5e9)
    here = ground()
    here = replace(here, barred=(), reserved_for={}, site=replace(here.site, forwarders=two))
    found = check_path_plans([plan(isolated=True)], here)
    assert [(one.rule, one.field) for one in found] == [("room left", "isolated")]
    left = {name: one for name, one in TOGETHER.items() if name != "room left"}
    assert check_path_plans([plan(isolated=True)], here, together=left) == []
    assert check_path_plans([plan(isolated=True, forwarders=["fwd1"])], here) == []


def test_what_is_kept_for_a_job_is_its_own() -> None:
    job = of_job(job_id="77").job
    assert check_path_plans([plan(job=job, forwarders=["fwd1", "fwd4"], pool="f77")], ground()) == []
    ops = plan(job=of_job(user="ops").job, forwarders=["fwd1", "fwd6"])
    assert check_path_plans([ops], ground()) == []


def test_counts_beside_the_allowed_ones_that_are_sound_all_the_same() -> None:
    """The default forwarders of the job's own nodes, and all that are sound where fewer are than the least count."""
    many = plan(job=of_job(node_count=4, nodes=["n1", "n2", "n3", "n4"]).job, forwarders=["fwd1", "fwd2", "fwd3"])
    assert check_path_plans([many], ground()) == []
    here = ground()
    few = replace(here, site=replace(here.site, forwarder_counts=(4, 8)))
    assert check_path_plans([plan()], few), "three could be granted to it"
    assert check_path_plans([plan(forwarders=["fwd1", "fwd2", "fwd3"])], few) == []
    five = replace(few.site.forwarders, sick=np.array([False, False, True, False, True, True]))
    few = replace(few, site=replace(few.site, forwarders=five))
    assert check_path_plans([plan()], few) == []


def test_what_is_kept_for_nobody_named_is_nobodys() -> None:
    [found] = check_path_plans([plan(forwarders=["fwd1", "fwd4"])], replace(ground(), reserved_for={}))
    assert (found.rule, found.component) == ("reserved", "fwd4")


def test_targets_are_of_one_file_system_though_none_is_named() -> None:
    here = ground()
    two = build_site_layer("target", (*TARGETS, "xfs-OST0000"), 1e9)
    here = replace(here, site=replace(here.site, targets=two))
    [found] = check_path_plans([plan(file_system=None, targets=[T4, "xfs-OST0000"])], here)
    assert (found.rule, found.component) == ("file system", "lfs, xfs")


def test_more_than_exist_is_said() -> None:
    here = ground()
    none = build_site_layer("forwarder", (), 1.0)
    empty = replace(here, site=replace(here.site, forwarders=none))
    reasons = {one.reason for one in check_path_plans([plan()], empty)}
    assert "2 are granted, 0 exist" in reasons
    assert "no such component is known" in reasons
    no_targets = build_site_layer("target", (), 1.0)
    bare = replace(here, site=replace(here.site, targets=no_targets, pools={}))
    assert any(one.rule == "capacity" and one.field == "targets" for one in check_path_plans([plan()], bare))


def test_a_bar_names_its_reason() -> None:
    here = replace(
        ground(),
        barred=(
            Reservation(components=frozenset({"fwd1"}), pools=frozenset(), why="it is new", concerns=lambda *_: True),
        ),
    )
    [found] = check_path_plans([plan()], here)
    assert str(found) == "job 42: forwarders fwd1: not allowed by the site: it is new"
