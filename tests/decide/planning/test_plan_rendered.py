"""Plans as commands: what is written, that it splits back into the same words, and names that are refused."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace as changed

from fairlead.core.errors import UnsoundPlanError, UsageError
from fairlead.core.model.plan import Expectation, Plan, Plans
from fairlead.decide.planning.render import FORMS, render_plans
from plan_building import NOW, TARGETS, of_job, plan


def text(one: Plan, form: str, folder: str = "") -> str:
    return render_plans(Plans(policy="aiot", state_ns=NOW, made_ns=NOW, plans=[one]), form, folder=folder)


def commands(lines: str) -> list[list[str]]:
    return [shlex.split(line) for line in lines.splitlines() if not line.startswith(("#", "--", "job_desc"))]


def test_lustre_makes_a_pool_a_layout_and_a_limit() -> None:
    assert commands(text(plan(), "lustre", "/lfs/my run")) == [
        ["lctl", "pool_new", "lfs.f42"],
        ["lctl", "pool_add", "lfs.f42", "lfs-OST[0004-0005]"],
        ["lfs", "setstripe", "-E", "1M", "-L", "mdt", "-E", "-1", "-c", "2", "-S", "1M", "-p", "f42", "/lfs/my run"],
        ["lctl", "set_param", "mds.MDS.mdt.nrs_policies=tbf jobid"],
        ["lctl", "set_param", "mds.MDS.mdt.nrs_tbf_rule=start f_42 jobid={42} rate=20000"],
        ["lctl", "set_param", "llite.*.max_read_ahead_per_file_mb=4"],
    ]


def setstripe(one: Plan) -> list[str]:
    [line] = [words for words in commands(text(one, "lustre")) if words[1] == "setstripe"]
    return line[2:-1]


def test_layouts() -> None:
    bare = {"dom_bytes": None, "pool": None, "stripe_bytes": None}
    alone = Expectation(basis="last run", mode="N-N")
    assert setstripe(plan(**bare)) == ["-c", "2"]
    assert setstripe(plan(**bare, targets=["lfs-OST000a"], stripe_count=1)) == ["-c", "1", "-i", "10"]
    assert setstripe(plan(**{**bare, "stripe_bytes": 192 << 10})) == ["-c", "2", "-S", "192K"]
    # Files of their own: the first bytes on one target, so that small ones do not open an object on every target.
    assert setstripe(plan(**bare, expected=alone)) == ["-E", "256M", "-c", "1", "-E", "-1", "-c", "2"]
    assert setstripe(plan(**{**bare, "pool": "f42"}, expected=alone)) == [
        "-E",
        "256M",
        "-c",
        "1",
        "-p",
        "f42",
        "-E",
        "-1",
        "-c",
        "2",
        "-p",
        "f42",
    ]


def test_a_pool_that_is_there_is_not_made_and_numbers_are_hexadecimal() -> None:
    there = text(plan(pool="flash", pool_exists=True, targets=list(TARGETS[:2])), "lustre")
    assert "pool_new" not in there
    assert "pool_destroy" not in there
    assert "-p flash" in there
    wide = plan(targets=["lfs-OST0009", "lfs-OST000a", "lfs-OST000b", "lfs-OST0010"])
    assert [words[3] for words in commands(text(wide, "lustre")) if words[1] == "pool_add"] == [
        "lfs-OST[0009-000b]",
        "lfs-OST0010",
    ]


def test_a_share_of_what_is_not_known_is_no_rate() -> None:
    lines = text(plan(metadata_ops_per_s=None), "lustre")
    assert "nrs_tbf_rule" not in lines
    assert "no rate can be given" in lines


def test_slurm_gets_what_it_can_hold() -> None:
    lines = text(plan(isolated=True), "slurm").splitlines()
    assert "#BB_LUA pool=fwd capacity=2" in lines
    assert 'job_desc.licenses = "fwd:2"' in lines
    told = "fairlead=1;policy=aiot;forwarders=fwd[1-2];isolated=1;pool=f42;stripes=2"
    assert f'job_desc.admin_comment = "{told}"' in lines
    assert ["FAIRLEAD_FORWARDERS=fwd1,fwd2"] in commands("\n".join(lines))


def test_the_map_deals_nodes_in_blocks() -> None:
    five = of_job(node_count=5, nodes=[f"n{k}" for k in range(1, 6)])
    assert text(five, "map").splitlines() == ["n1 fwd1", "n2 fwd1", "n3 fwd1", "n4 fwd2", "n5 fwd2"]
    assert text(changed(five, forwarders=[]), "map") == ""
    lines = text(five, "remap", "/mnt/f").splitlines()
    assert lines[1:] == [
        "# on n[1-3]:",
        'fairlead remap /mnt/f tcp:fwd1:"$PORT" tcp:fwd2:"$PORT"',
        "# on n[4-5]:",
        'fairlead remap /mnt/f tcp:fwd2:"$PORT" tcp:fwd1:"$PORT"',
    ]


def test_a_map_needs_nodes() -> None:
    with pytest.raises(UsageError, match="not known"):
        text(of_job(nodes=[]), "map")
    with pytest.raises(UsageError, match="no form"):
        text(plan(), "puppet")
    with pytest.raises(UsageError, match="no file system"):
        text(plan(file_system=None), "lustre")


def test_nothing_to_change_says_so() -> None:
    bare = plan(
        forwarders=[],
        targets=[],
        pool=None,
        stripe_count=None,
        stripe_bytes=None,
        prefetch_bytes=None,
        metadata_share=None,
        metadata_ops_per_s=None,
        dom_bytes=None,
        hints={},
    )
    assert not bare.changes
    assert text(bare, "lustre").splitlines()[1] == "# nothing to change"
    assert plan().changes
    assert not changed(bare, forwarders=["fwd1"]).changes, "its default forwarder is no change"


EVIL = ["a\nreboot", "-rf", "a b", "$(id)", "`id`", 'a"b', "a'b", "a;b", "a\\b", "", "a\x1b[31m", "ä", "a|b", "{x}"]


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("evil", EVIL)
def test_names_that_could_break_out_are_refused(form: str, evil: str) -> None:
    """Whatever they are names of, they are in no text."""
    for one in (
        of_job(job_id=evil),
        of_job(nodes=[evil, "n2"]),
        plan(forwarders=[evil]),
        plan(targets=[evil]),
        plan(pool=evil),
        plan(file_system=evil),
        plan(hints={"cb": evil}),
    ):
        try:
            lines = text(one, form)
        except (UnsoundPlanError, UsageError):
            continue
        assert lines == text(one, form)
        if evil:
            assert evil not in lines
    with pytest.raises(UsageError, match="absolute path"):
        text(plan(), "lustre", "relative\n/path")


def test_a_folder_is_quoted() -> None:
    assert commands(text(plan(), "lustre", "/lfs/a b;reboot"))[2][-1] == "/lfs/a b;reboot"
