"""What `fairlead report` writes: never onto what it reads, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairlead.cli.main import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return Path(shutil.copy(ROOT / "examples" / "logs" / "n1_strided_64k_8.darshan", tmp_path / "a.darshan"))


@pytest.mark.parametrize("option", ["--html", "--json"])
@pytest.mark.parametrize("name", ["a.darshan", "link.html", "sub/../a.darshan"])
def test_an_input_is_never_overwritten(log: Path, option: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = log.read_bytes()
    (log.parent / "link.html").symlink_to(log)
    (log.parent / "sub").mkdir()
    assert main(["report", str(log), option, str(log.parent / name)]) == 2
    assert "would overwrite an input" in capsys.readouterr().err
    assert log.read_bytes() == before


def test_a_log_found_in_a_folder_is_never_overwritten(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = log.read_bytes()
    assert main(["report", str(log.parent), "--html", str(log)]) == 2
    assert "would overwrite an input" in capsys.readouterr().err
    assert log.read_bytes() == before


def test_two_outputs_need_two_files(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(log.parent / "out")
    assert main(["report", str(log), "--html", out, "--json", out]) == 2
    assert "the same file" in capsys.readouterr().err
    assert main(["report", str(log), "--html", "-"]) == 2


def test_a_page_replaces_an_older_one_whole(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = log.parent / "page.html"
    page.write_text("old")
    assert main(["report", str(log), "--html", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert str(page) in capsys.readouterr().err
    assert sorted(p.name for p in log.parent.iterdir()) == ["a.darshan", "page.html"]
