"""The text a site's own tool prints: run without a shell, with a deadline and a bound on what is kept.

`subprocess` is imported when a command is run, so that an agent without commands does not pay for it.
"""

from typing import List

from fairlead.see.probes.base import AbsentError

MAX_BYTES = 256 << 20


def read_probe_command_output(argv: List[str], timeout_s: float, max_bytes: int = MAX_BYTES) -> bytes:
    """Standard output of a command.

    Raises AbsentError when there is no such program, OSError when it fails, takes longer than `timeout_s` (it is
    killed) or prints more than `max_bytes`.
    """
    import subprocess

    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=True,
            env=_environment(),
        )
    except FileNotFoundError:
        raise AbsentError("no program {} on this node".format(argv[0])) from None
    try:
        out, complaint = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise OSError("{} took longer than {:g} s".format(argv[0], timeout_s)) from None
    if child.returncode != 0:
        said = (complaint.strip() or out[:4096]).decode("utf-8", "replace").strip().splitlines()
        raise OSError("{} ended with {}: {}".format(argv[0], child.returncode, said[0][:200] if said else ""))
    if len(out) > max_bytes:
        raise OSError("{} printed more than {} bytes".format(argv[0], max_bytes))
    return bytes(out)


def _environment() -> "dict[str, str]":
    """Numbers with points and names in ASCII, whatever the node's language."""
    import os

    return dict(os.environ, LC_ALL="C")
