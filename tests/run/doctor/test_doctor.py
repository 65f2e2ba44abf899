"""`fairlead host check` on made-up machines: each check with what it looks for there, half there and absent."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli import host as command
from fairlead.core.errors import MissingDependencyError
from fairlead.run.doctor import Check, Machine, does_doctor_pass, run_doctor_checks
from fairlead.run.doctor.compute import check_compute
from fairlead.run.doctor.install_commands import (
    build_install_command,
    build_pip_install_command,
    list_install_requirements,
)
from fairlead.run.doctor.monitoring import check_monitoring
from fairlead.run.doctor.site import check_site_services
from fairlead.run.doctor.storage import check_storage
from fairlead.run.doctor.tools import check_tools, check_tools_extra

MIB = 1 << 10  # in KiB, the unit of /proc/meminfo


@dataclass
class Room:
    """A machine made of files: nothing there until a test puts it there."""

    root: Path

    def machine(self) -> Machine:
        parts = {name: self.root / name for name in ("proc", "sys", "dev", "etc", "boot")}
        return Machine(
            **parts,
            search=str(self.root / "bin"),
            environment={},
            user_id=1000,
            kernel="6.12.1",
            load=lambda name: name,
        )

    def put(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def program(self, name: str, script: str = "exit 0") -> Path:
        file = self.put(f"bin/{name}", f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    def distribution(self, text: str) -> None:
        self.put("etc/os-release", text)


def _find(check_area: Callable[[Machine], list[Check]], name: str, machine: Machine) -> Check:
    return next(check for check in check_area(machine) if check.name == name)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_an_empty_machine_gives_every_check_and_no_exception(room: Room) -> None:
    checks = run_doctor_checks(room.machine())
    assert len({check.name for check in checks}) == len(checks)
    for check in checks:
        assert check.found
        assert check.enables
        if check.status != "ok":
            assert check.command or check.hint, f"{check.name}: what to do is not said"
    assert does_doctor_pass(checks)


def test_this_machine_can_run_fairlead() -> None:
    checks = run_doctor_checks(Machine())
    assert does_doctor_pass(checks)
    assert {check.area for check in checks} == {"core", "storage", "site", "monitoring", "tools"}


# --- packages and memory ------------------------------------------------------------------------------------------


def test_a_package_that_does_not_load_makes_the_core_unusable(room: Room) -> None:
    def load(name: str) -> object:
        if name == "pyarrow":
            raise OSError("libstdc++.so.6: version `GLIBCXX_3.4.32' not found")
        return name

    checks = check_compute(replace(room.machine(), load=load))
    packages = next(check for check in checks if check.name == "packages")
    assert packages.status == "missing"
    assert "GLIBCXX" in packages.found
    assert packages.command is not None
    assert packages.command.endswith("pip install --force-reinstall pyarrow")
    assert not does_doctor_pass(checks)


def _memory(room: Room) -> Check:
    return _find(check_compute, "memory", room.machine())


def test_memory_of_the_machine_and_of_its_group(room: Room) -> None:
    room.put("proc/meminfo", f"MemTotal: {8192 * MIB} kB\nMemAvailable: {4096 * MIB} kB\n")
    assert (_memory(room).status, _memory(room).found) == ("ok", "8 GiB, 4 GiB free")
    room.put("proc/self/cgroup", "0::/job\n")
    room.put("sys/fs/cgroup/job/memory.max", "max\n")
    assert _memory(room).found == "8 GiB, 4 GiB free"
    room.put("sys/fs/cgroup/job/memory.max", f"{1 << 30}\n")
    assert (_memory(room).status, _memory(room).found) == ("partly", "1 GiB allowed of 8 GiB, 1 GiB free")
    room.put("proc/self/cgroup", "4:memory:/elsewhere\n")
    room.put("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{3 << 30}\n")
    assert _memory(room).found == "3 GiB allowed of 8 GiB, 3 GiB free"
    room.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert _memory(room).found == "8 GiB, 4 GiB free"


def test_memory_that_cannot_be_read_is_not_zero(room: Room) -> None:
    assert (_memory(room).status, _memory(room).found) == ("partly", "not known")


# --- storage ------------------------------------------------------------------------------------------------------


def test_fuse(room: Room) -> None:
    room.distribution('ID="rocky"\nID_LIKE="rhel centos fedora"\n')
    absent = _find(check_storage, "FUSE", room.machine())
    assert (absent.status, absent.command) == ("missing", "sudo modprobe fuse")
    device = room.put("dev/fuse")
    no_helper = _find(check_storage, "FUSE", room.machine())
    assert (no_helper.status, no_helper.command) == ("missing", "sudo dnf install fuse3")
    assert _find(check_storage, "FUSE", replace(room.machine(), user_id=0)).status == "partly"
    helper = room.program("fusermount3")
    whole = _find(check_storage, "FUSE", room.machine())
    assert whole.status == "ok"
    assert str(helper) in whole.found
    device.unlink()
    device.mkdir()
    assert _find(check_storage, "FUSE", room.machine()).status == "missing"


@pytest.mark.parametrize(
    ("kernel", "config", "capable", "status"),
    [
        ("6.8.12", "CONFIG_FUSE_PASSTHROUGH=y", True, "missing"),
        ("5.14.0-503.el9", "CONFIG_FUSE_PASSTHROUGH=y", True, "missing"),
        ("6.9.0", "CONFIG_FUSE_PASSTHROUGH=y", True, "ok"),
        ("6.12.1", "CONFIG_FUSE_PASSTHROUGH=y", False, "partly"),
        ("6.12.1", "# CONFIG_FUSE_PASSTHROUGH is not set", True, "missing"),
        ("6.12.1", None, True, "partly"),
        ("7.0.0-rc1", "CONFIG_FUSE_PASSTHROUGH=y", True, "ok"),
    ],
)
@pytest.mark.parametrize("place", ["proc", "boot"])
def test_passthrough(room: Room, place: str, kernel: str, config: str | None, capable: bool, status: str) -> None:
    room.put("proc/self/status", f"Name:\tpython\nCapEff:\t{(1 << 21 if capable else 0):016x}\n")
    if config is not None and place == "proc":
        (room.root / "proc/config.gz").write_bytes(gzip.compress(f"CONFIG_FUSE_FS=y\n{config}\n".encode()))
    elif config is not None:
        room.put(f"boot/config-{kernel}", f"CONFIG_FUSE_FS=y\n{config}\n")
    assert _find(check_storage, "FUSE passthrough", replace(room.machine(), kernel=kernel)).status == status


def test_passthrough_with_a_damaged_kernel_configuration_is_not_known(room: Room) -> None:
    room.put("proc/self/status", f"CapEff:\t{1 << 21:016x}\n")
    (room.root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_FUSE_PASSTHROUGH=y\n")[:-9])
    assert _find(check_storage, "FUSE passthrough", room.machine()).status == "partly"


def test_lustre(room: Room) -> None:
    assert _find(check_storage, "Lustre", room.machine()).status == "missing"
    room.put("proc/mounts", "10.0.0.1@o2ib:/scratch /scratch lustre rw 0 0\nproc /proc proc rw 0 0\n")
    mounted = _find(check_storage, "Lustre", room.machine())
    assert (mounted.status, mounted.found) == ("partly", "mounted at /scratch")
    room.program("lfs")
    room.program("lctl")
    room.put("sys/fs/lustre/version", "2.15.5\n")
    whole = _find(check_storage, "Lustre", room.machine())
    assert (whole.status, whole.found) == ("ok", "mounted at /scratch; tools lfs, lctl; version 2.15.5")
    assert whole.command is None


def test_gluster_and_gpfs(room: Room) -> None:
    room.distribution("ID=debian\n")
    assert _find(check_storage, "GlusterFS", room.machine()).command == "sudo apt-get install glusterfs-cli"
    room.program("gluster")
    assert _find(check_storage, "GlusterFS", room.machine()).status == "ok"
    room.put("proc/mounts", "fs1 /gpfs/fs\\0401 gpfs rw 0 0\n")
    assert _find(check_storage, "GPFS", room.machine()).found == "mounted at /gpfs/fs 1"
    room.program("mmperfmon")
    assert _find(check_storage, "GPFS", room.machine()).status == "ok"


# --- site ---------------------------------------------------------------------------------------------------------


def _second_version(room: Room, controllers: str) -> None:
    room.put("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    room.put("proc/self/cgroup", "0::/user.slice/mine.scope\n")
    room.put("sys/fs/cgroup/cgroup.controllers", controllers)


def test_cgroups_delegated(room: Room) -> None:
    assert _find(check_site_services, "cgroups", room.machine()).status == "missing"
    _second_version(room, "cpuset cpu io memory pids\n")
    apart = _find(check_site_services, "cgroups", room.machine())
    assert (apart.status, "Delegate=yes" in (apart.command or "")) == ("partly", True)
    room.put("sys/fs/cgroup/user.slice/mine.scope/cgroup.procs", "1\n")
    assert _find(check_site_services, "cgroups", room.machine()).status == "ok"


def test_cgroups_without_io_or_of_version_1(room: Room) -> None:
    _second_version(room, "memory pids\n")
    assert "without the io controller" in _find(check_site_services, "cgroups", room.machine()).found
    room.put("proc/mounts", "cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n")
    first = _find(check_site_services, "cgroups", room.machine())
    assert (first.status, first.found) == ("partly", "version 1; blkio not writable")
    (room.root / "sys/fs/cgroup/blkio").mkdir()
    assert _find(check_site_services, "cgroups", room.machine()).found == "version 1; blkio writable"


def test_slurm_absent_half_there_and_answering(room: Room) -> None:
    room.distribution("ID=ubuntu\nID_LIKE=debian\n")
    assert _find(check_site_services, "Slurm", room.machine()).command == "sudo apt-get install slurm-client"
    room.program("sinfo", 'echo "slurm 24.05.1"')
    room.program("squeue")
    half = _find(check_site_services, "Slurm", room.machine())
    assert (half.status, half.found) == ("partly", "squeue, sinfo; no sacct")
    room.program("sacct", 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    refused = _find(check_site_services, "Slurm", room.machine())
    assert refused.status == "partly"
    assert refused.found == "slurm 24.05.1; accounting: Slurm accounting storage is disabled"
    room.program("sacct", '[ "$1" = -n ] && [ "$4" = now-1minutes ] && echo 4711')
    assert _find(check_site_services, "Slurm", room.machine()).found == "slurm 24.05.1; accounting answers"
    room.program("sacct", "exit 1")
    assert _find(check_site_services, "Slurm", room.machine()).found == "slurm 24.05.1; accounting: no answer"


def test_slurmrestd(room: Room) -> None:
    assert _find(check_site_services, "slurmrestd", room.machine()).status == "missing"
    assert (
        _find(
            check_site_services, "slurmrestd", replace(room.machine(), search=str(room.program("slurmrestd").parent))
        ).status
        == "ok"
    )


def test_infiniband(room: Room) -> None:
    room.distribution("ID=sles\n")
    assert _find(check_site_services, "InfiniBand", room.machine()).found == "no adapter"
    room.put("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
    assert _find(check_site_services, "InfiniBand", room.machine()).found == "0 of 1 ports active"
    room.put("sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n")
    half = _find(check_site_services, "InfiniBand", room.machine())
    assert (half.status, half.command) == ("partly", "sudo zypper install infiniband-diags")
    room.program("perfquery")
    assert _find(check_site_services, "InfiniBand", room.machine()).found == "1 of 2 ports active; perfquery"


# --- monitoring ---------------------------------------------------------------------------------------------------


def test_a_python_of_3_6_or_newer_runs_the_agent(room: Room) -> None:
    room.distribution("ID=rocky\n")
    room.program("python3", "echo Python 3.5.9")
    none = _find(check_monitoring, "Python for the agent", room.machine())
    assert (none.status, none.command) == ("missing", "sudo dnf install python3")
    room.program("python3.6", "echo Python 3.6.8")
    there = _find(check_monitoring, "Python for the agent", room.machine())
    assert (there.status, there.found) == ("ok", f"{room.root}/bin/python3.6: Python 3.6.8")


def test_lustre_counters_and_whether_they_may_be_read(room: Room) -> None:
    assert _find(check_monitoring, "Lustre counters", room.machine()).status == "missing"
    room.put("proc/fs/lustre/obdfilter/scratch-OST0000/stats")
    room.put("sys/fs/lustre/llite/scratch-ffff/stats")
    there = _find(check_monitoring, "Lustre counters", room.machine())
    assert (there.status, there.found) == ("ok", "client and OSS; all readable")
    room.put("proc/mounts", "mgs@tcp:/scratch /scratch lustre rw 0 0\n")
    hidden = _find(check_monitoring, "Lustre counters", room.machine())  # debugfs cannot be looked into: not there
    assert hidden.status == "partly"
    assert "not readable" in hidden.found
    assert hidden.command


def test_disks_of_a_machine_and_of_none(room: Room) -> None:
    assert _find(check_monitoring, "disk counters", room.machine()).status == "missing"
    room.put("proc/diskstats", "   8  0 sda 1 0 8 5 1 0 8 0 0 5 5\n")
    assert _find(check_monitoring, "disk counters", room.machine()).found == f"1 devices in {room.root}/proc/diskstats"


def test_jobs_of_a_node(room: Room) -> None:
    assert _find(check_monitoring, "jobs on the node", room.machine()).status == "missing"
    room.program("slurmd")
    assert _find(check_monitoring, "jobs on the node", room.machine()).status == "partly"
    room.put("sys/fs/cgroup/system.slice/slurmstepd.scope/cgroup.procs")
    assert _find(check_monitoring, "jobs on the node", room.machine()).status == "ok"


@pytest.mark.parametrize(("version", "status"), [("slurm 20.11.9", "partly"), ("slurm 21.08.0", "ok")])
def test_the_job_feed_needs_json(room: Room, version: str, status: str) -> None:
    assert _find(check_monitoring, "job feed", room.machine()).status == "missing"
    room.program("squeue", f"echo {version}")
    assert _find(check_monitoring, "job feed", room.machine()).status == status


def test_ports_of_the_server(room: Room) -> None:
    head = "  sl  local_address rem_address   st\n"
    room.put("proc/net/tcp", head + "   0: 0100007F:217B 0100007F:0001 01\n")  # a connection, not a listener
    assert _find(check_monitoring, "server's ports", room.machine()).status == "ok"
    room.put("proc/net/tcp6", head + "   0: 00000000000000000000000001000000:217C 00000000:0000 0A\n")
    taken = _find(check_monitoring, "server's ports", room.machine())
    assert (taken.status, taken.command) == ("partly", "fairlead server status")
    assert "8572: questions" in taken.found
    assert "8571" not in taken.found


def test_systemd_or_another_first_process(room: Room) -> None:
    room.put("proc/1/comm", "tini\n")
    assert _find(check_monitoring, "systemd", room.machine()).found == "the first process is tini"
    room.put("proc/1/comm", "systemd\n")
    room.program("systemctl", "echo systemd 252")
    assert _find(check_monitoring, "systemd", room.machine()).found == "systemd 252"


# --- tools --------------------------------------------------------------------------------------------------------


def test_darshan_runtime(room: Room) -> None:
    assert _find(check_tools, "Darshan", room.machine()).command == "spack install darshan-runtime"
    with_modules = replace(room.machine(), environment={"MODULEPATH": "/opt/modules"})
    assert _find(check_tools, "Darshan", with_modules).command == "module load darshan"
    preloaded = replace(room.machine(), environment={"LD_PRELOAD": "libm.so:/opt/d/lib/libdarshan.so"})
    assert _find(check_tools, "Darshan", preloaded).found == "preloaded: /opt/d/lib/libdarshan.so"
    library = room.put("lib/libdarshan.so")
    on_path = replace(room.machine(), environment={"LD_LIBRARY_PATH": f":/nowhere:{library.parent}"})
    assert _find(check_tools, "Darshan", on_path).found == str(library)


def test_extra_there_half_there_and_absent() -> None:
    assert check_tools_extra("darshan", ("click",), "x").status == "ok"
    half = check_tools_extra("heavy", ("click", "no_such_module"), "x")
    assert (half.status, half.found) == ("partly", "no no_such_module")
    assert "dask>=" in (half.command or "")
    assert check_tools_extra("darshan", ("no_such_module",), "x").status == "missing"


def test_requirements_of_extras_come_from_the_package() -> None:
    assert [word.split(">=")[0] for word in list_install_requirements("darshan")] == ["darshan"]
    assert list_install_requirements("no-such-extra") == []
    assert build_pip_install_command() is None


def test_browser(room: Room) -> None:
    room.distribution("ID=debian\n")
    assert _find(check_tools, "Chromium", room.machine()).command == "sudo apt-get install chromium"
    room.distribution("ID=ubuntu\nID_LIKE=debian\n")
    assert (_find(check_tools, "Chromium", room.machine()).command or "").endswith(
        "playwright install --with-deps chromium"
    )
    room.program("google-chrome")
    assert _find(check_tools, "Chromium", room.machine()).status == "ok"


# --- the machine --------------------------------------------------------------------------------------------------


def test_install_command_by_distribution(room: Room) -> None:
    assert build_install_command(room.machine(), apt="a", dnf="d", zypper="z") is None
    room.distribution('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n')
    assert build_install_command(room.machine(), apt="a", dnf="d", zypper="z") == "sudo zypper install z"
    assert build_install_command(room.machine(), apt="a") is None
    room.distribution("ID=debian\n")
    assert build_install_command(replace(room.machine(), user_id=0), apt="a") == "apt-get install a"


def test_a_command_that_hangs_or_is_no_program_is_no_answer(room: Room) -> None:
    room.program("slow", "exec /bin/sleep 60")
    assert room.machine().run("slow", timeout_s=0.2) is None
    room.put("bin/text", "no program").chmod(0o755)
    assert room.machine().run("text") is None
    assert room.machine().run("nowhere") is None


def test_arguments_reach_a_command_unchanged_by_any_shell(room: Room) -> None:
    room.program("show", 'printf "%s|" "$@"')
    ran = room.machine().run("show", "a b", "$HOME", ";ls", "*")
    assert ran is not None
    assert (ran.code, ran.text) == (0, "a b|$HOME|;ls|*|")


# --- the command --------------------------------------------------------------------------------------------------


def _machine_of(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    monkeypatch.setattr(command, "Machine", lambda: machine)


def test_json(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine_of(monkeypatch, room.machine())
    result = CliRunner().invoke(command.host, ["check", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == command.SCHEMA
    assert document["usable"] is True
    assert set(document["checks"][0]) == {"area", "name", "status", "found", "enables", "command", "hint"}
    assert {check["status"] for check in document["checks"]} <= {"ok", "partly", "missing"}


def test_table_shows_every_check_and_its_command(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.distribution("ID=debian\n")
    _machine_of(monkeypatch, room.machine())
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(command.host, ["check"])
    assert result.exit_code == 0
    for check in run_doctor_checks(room.machine()):
        assert check.name in result.stdout
        if check.command is not None:
            assert check.command in result.stdout
    assert os.linesep + "Storage" in result.stdout


def test_an_unusable_core_is_an_error_after_the_table(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> object:
        raise ImportError(f"No module named {name!r}")

    _machine_of(monkeypatch, replace(room.machine(), load=load))
    result = CliRunner().invoke(command.host, ["check"])
    assert isinstance(result.exception, MissingDependencyError)
    assert result.exception.exit_code == 6
    assert "packages" in result.stdout
