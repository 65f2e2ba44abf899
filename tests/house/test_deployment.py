"""What is shipped beside the package: systemd units that systemd understands, scripts that bash does."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "PrivateTmp": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "ProtectKernelModules": "yes",
}


def test_there_are_units_for_server_and_agent() -> None:
    assert [unit.stem for unit in UNITS] == ["fairlead-agent", "fairlead-server"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_give_few_rights(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    service = dict(parser["Service"])
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    assert "CapabilityBoundingSet" in service
    assert service["Restart"] == "always"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_the_units(unit: Path, tmp_path: Path) -> None:
    if which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    lines = unit.read_text(encoding="utf-8").splitlines()
    # The programs are not installed where tests run; everything else is as shipped.
    there = [line if not line.startswith("ExecStart=") else f"ExecStart={which('true')}" for line in lines]
    copy = tmp_path / unit.name
    copy.write_text("\n".join(there) + "\n", encoding="utf-8")
    copy.chmod(0o644)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_TARGET": "console"},
    )
    assert done.stderr.strip() == ""
    assert done.returncode == 0


@pytest.mark.parametrize("script", sorted((ROOT / "tools").glob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_the_server_unit_names_commands_that_exist() -> None:
    from fairlead.cli.up import up

    text = (ROOT / "deploy" / "systemd" / "fairlead-server.service").read_text(encoding="utf-8")
    assert "fairlead up --config" in text
    assert "--config" in [name for option in up.params for name in option.opts]
