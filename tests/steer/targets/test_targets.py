"""Striped trees as a whole: commands, layouts, placement, pace, what is on disk and how it is read back."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.steer.fs.trees.base import ROOT, Change
from fairlead.steer.targets.check import check_store
from fairlead.steer.targets.config import read_config
from fairlead.steer.targets.tree import TargetsTree
from targets_building import disturb, opened, read_file, write_file, write_targets

LAYOUT = b"user.fairlead.layout"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "targets-layout.md"


def _fill(tree: TargetsTree) -> dict[str, bytes]:
    """A small tree; paths and contents of its files."""
    folder, _ = tree.mkdir(ROOT, b"folder", 0o750)
    contents = {"small": b"abc", "empty": b"", "folder/large": os.urandom(700_001), "folder/\xe4": b"umlaut"}
    for path, data in contents.items():
        parent = folder if "/" in path else ROOT
        write_file(tree, os.fsencode(path.rpartition("/")[2]), data, parent)
    node, _, file = tree.create(ROOT, b"sparse", os.O_RDWR, 0o600)
    file.write_from(memoryview(b"end"), 5_000_000)
    file.close()
    contents["sparse"] = bytes(5_000_000) + b"end"
    tree.symlink(ROOT, b"link", b"folder/large")
    tree.link(node, folder, b"again")
    contents["folder/again"] = contents["sparse"]
    tree.set_attribute(node, b"user.colour", b"red", 0)
    tree.change(node, Change(mtime_ns=1_000_000_005, mode=0o640), None)
    return contents


def _same(folder: Path, contents: dict[str, bytes]) -> None:
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {*contents, "folder", "link"}
    for path, data in contents.items():
        assert (folder / path).read_bytes() == data
    assert (folder / "link").readlink() == Path("folder/large")


def test_export(tmp_path: Path) -> None:
    file = write_targets(tmp_path, 'stripe_count = 2\nstripe_size = "64K"')
    with opened(file) as tree:
        contents = _fill(tree)
    assert main(["tree", "export", str(file), str(tmp_path / "out")]) == 0
    _same(tmp_path / "out", contents)
    found = (tmp_path / "out" / "sparse").stat()
    assert (found.st_mtime_ns, stat.S_IMODE(found.st_mode), found.st_nlink) == (1_000_000_005, 0o640, 2)
    assert found.st_blocks * 512 < 1 << 20, "holes stay holes"
    assert main(["tree", "export", str(file), str(tmp_path / "part"), "/folder/large"]) == 0
    assert (tmp_path / "part" / "large").read_bytes() == contents["folder/large"]
    assert main(["tree", "export", str(file), str(tmp_path / "out")]) == 3, "not into a full directory"
    assert main(["tree", "export", str(file), str(tmp_path / "no"), "/none"]) == 3


def test_export_beside_a_forwarder(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        write_file(tree, b"a", b"data")
        command = [sys.executable, "-m", "fairlead", "tree", "export", str(file), str(tmp_path / "out"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["files"] == 1
        assert (tmp_path / "out" / "a").read_bytes() == b"data"


def test_export_says_what_is_lost(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        for number in range(6):
            write_file(tree, b"f%d" % number, b"data")
    next((tmp_path / "t1").glob("objects/*/*")).unlink()
    assert main(["tree", "export", str(file), str(tmp_path / "out")]) == 4


def test_the_script_of_the_page_reads_a_tree_back(tmp_path: Path) -> None:
    file = write_targets(tmp_path, 'stripe_count = 3\nstripe_size = "4K"')
    with opened(file) as tree:
        contents = _fill(tree)
    match = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    script = tmp_path / "recover.py"
    script.write_text(match[1], encoding="utf-8")
    assert match[1].count("\n") < 45
    places = [f"{name}={tmp_path / name}" for name in ("t0", "t1", "t2")]
    subprocess.run(
        [sys.executable, str(script), str(tmp_path / "metadata"), str(tmp_path / "out"), *places], check=True
    )
    _same(tmp_path / "out", contents)


def test_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_targets(tmp_path, "placement = 'round-robin'", extra={"t1": 'max_perf = "500M"\npool = "fast"'})
    with opened(file) as tree:
        for number in range(6):
            write_file(tree, b"f%d" % number, b"data")
    (tmp_path / "t2").rename(tmp_path / "away")
    assert main(["tree", "show", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "fairlead.targets/1"
    rows = {row["name"]: row for row in found["targets"]}
    assert [rows[name]["state"] for name in ("t0", "t1", "t2")] == ["ok", "ok", "missing"]
    assert rows["t1"]["max_perf_bytes_per_s"] == 500 << 20
    assert [rows[name]["objects"] for name in ("t0", "t1", "t2")] == [2, 2, 0], "one after the other"
    assert rows["t0"]["capacity_bytes"] > rows["t0"]["used_bytes"] > 0
    assert main(["tree", "show", str(file)]) == 0
    assert "fast" in capsys.readouterr().out


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        write_file(tree, b"a", b"data")
    assert main(["tree", "check", str(file)]) == 0
    stray = tmp_path / "t0" / "objects" / "ff"
    stray.mkdir(exist_ok=True)
    (stray / "ff.0").write_bytes(b"stray")
    capsys.readouterr()
    assert main(["tree", "check", str(file), "--json"]) == 8
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["kind"], problem["target"], problem["mended"]) == ("orphaned", "t0", False)
    assert main(["tree", "check", str(file), "--repair"]) == 0
    assert (tmp_path / "t0" / "lost" / "ff.0").read_bytes() == b"stray"
    assert main(["tree", "check", str(file)]) == 0


def test_repair_needs_the_tree_for_itself(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file):
        command = [sys.executable, "-m", "fairlead", "tree", "check", str(file)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
        done = subprocess.run([*command, "--repair"], capture_output=True, text=True, check=False)
        assert done.returncode == 8
        assert "another process" in done.stderr


def test_layouts_are_inherited(tmp_path: Path) -> None:
    file = write_targets(tmp_path, extra={"t0": 'pool = "fast"', "t1": 'pool = "fast"'})
    with opened(file) as tree:
        folder, _ = tree.mkdir(ROOT, b"d", 0o755)
        assert LAYOUT not in tree.attribute_names(folder)
        tree.set_attribute(folder, LAYOUT, b"count=2,size=8K,pool=fast", 0)
        assert LAYOUT in tree.attribute_names(folder)
        below, _ = tree.mkdir(folder, b"e", 0o755)
        node = write_file(tree, b"a", bytes(100_000), below)
        shown = tree.get_attribute(node, LAYOUT)
        assert shown in (b"count=2,size=8192,targets=t0:t1", b"count=2,size=8192,targets=t1:t0")
        for wrong in (b"count=99", b"pool=none", b"\xff"):
            with pytest.raises(OSError) as caught:
                tree.set_attribute(folder, LAYOUT, wrong, 0)
            assert caught.value.errno == errno.EINVAL
        with pytest.raises(FileExistsError):
            tree.set_attribute(node, LAYOUT, b"count=1", 0)
        tree.remove_attribute(below, LAYOUT)
        assert tree.get_attribute(write_file(tree, b"b", b"x", below), LAYOUT).startswith(b"count=1,")
    assert main(["tree", "set-layout", str(file), "/d/e", "count=3,pool="]) == 0
    assert main(["tree", "set-layout", str(file), "/d/e", "count=x"]) == 2
    assert main(["tree", "set-layout", str(file), "/none", "count=1"]) == 3
    with opened(file) as tree:
        below = tree.lookup(tree.lookup(ROOT, b"d")[0], b"e")[0]
        assert tree.get_attribute(write_file(tree, b"c", b"x", below), LAYOUT).startswith(b"count=3,")


def test_open_files_decide_the_placement(tmp_path: Path) -> None:
    extra = {"t0": 'max_perf = "300M"', "t1": 'max_perf = "100M"', "t2": 'max_perf = "100M"'}
    file = write_targets(tmp_path, extra=extra)
    placed: list[tuple[int, list[str], str]] = []
    with opened(file) as tree:
        tree.placed = lambda node, targets, path: placed.append((node, targets, path))
        folder = tree.mkdir(ROOT, b"run", 0o755)[0]
        files = []
        for number in range(10):
            node, _, made = tree.create(folder, b"f%d" % number, os.O_RDWR, 0o644)
            assert tree.find_target_name(node, 0) is None
            made.write_from(memoryview(b"x"), 0)
            assert placed[-1] == (node, [tree.find_target_name(node, 0)], f"/run/f{number}")
            files.append(made)
        counts = {row.name: row.open_count for row in tree.report_targets()}
        assert counts == {"t0": 6, "t1": 2, "t2": 2}
        for made in files:
            made.close()
        assert all(row.open_count == 0 for row in tree.report_targets())
        assert sum(row.write_rpcs for row in tree.report_targets()) == 10
        assert sum(sum(row.service_ns) for row in tree.report_targets()) == 10


def test_a_target_is_held_to_its_pace(tmp_path: Path) -> None:
    file = write_targets(tmp_path, names=("t0",), extra={"t0": 'max_perf = "8M"'})
    piece = memoryview(bytes(1 << 20))
    with opened(file) as tree:
        assert tree.list_target_rates() == {"t0": 8 << 20}
        _, _, made = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        began = time.monotonic()
        for number in range(6):
            made.write_from(piece, number << 20)
        # 6 MiB at 8 MiB/s, less the burst of 0.1 s and the last request.
        assert time.monotonic() - began > 0.45
        tree.disable_pacing()
        made.close()


def test_pieces_of_a_target_are_known(tmp_path: Path) -> None:
    file = write_targets(tmp_path, 'stripe_count = 3\nstripe_size = "4K"')
    with opened(file) as tree:
        node, _, made = tree.create(ROOT, b"a", os.O_RDWR, 0o644)
        made.write_from(memoryview(bytes(20_000)), 0)
        seen = [tree.find_target_name(node, at) for at in (0, 4096, 8192, 12288)]
        assert len(set(seen)) == 3
        assert seen[0] == seen[3]
        made.close()
        assert tree.find_target_name(node, 0) is None


def test_the_file_of_the_page_is_good(tmp_path: Path) -> None:
    match = re.search(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    path = tmp_path / "targets.toml"
    path.write_text(match[1], encoding="utf-8")
    assert [target.name for target in read_config(path).targets] == ["t0", "t1"]


def test_a_changed_targets_file(tmp_path: Path) -> None:
    file = write_targets(tmp_path)
    with opened(file) as tree:
        nodes = [write_file(tree, b"f%d" % number, b"data") for number in range(3)]
    file = write_targets(tmp_path, names=("t0", "t1"))
    with opened(file) as tree:
        lost = [node for node in nodes if b"t2" in tree.get_attribute(node, LAYOUT)]
        assert len(lost) == 1
        for node in nodes:
            if node not in lost:
                assert read_file(tree, node) == b"data"
        with pytest.raises(OSError) as caught:
            read_file(tree, lost[0])
        assert caught.value.errno == errno.EIO
        assert check_store(tree.store, tree.targets).faults
    with opened(write_targets(tmp_path, names=("t0", "t1", "t2", "t3"))) as tree:
        assert all(read_file(tree, node) == b"data" for node in nodes)


def test_threads_on_the_same_names(tmp_path: Path) -> None:
    """Names that come and go under open files: no error but those of names, nothing left over."""
    with opened(write_targets(tmp_path, 'stripe_count = 2\nstripe_size = "4K"')) as tree:
        assert not disturb([tree] * 6, 400)
        assert not _open_objects()
        assert all(row.open_count == 0 for row in tree.report_targets())
        tree.sweep(0)
        assert not check_store(tree.store, tree.targets).problems


def _open_objects() -> list[str]:
    """Objects this process has open."""
    found = []
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if "/objects/" in path]
