"""`fairlead seff`: how a job used what it had. Loads little, so that it can be called for every job.

Asks a server; without one the server of this machine, else the lake. Not here: the figures
(`questions.job_efficiency`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fairlead.cli.options import add_lake_option, add_server_options, add_wait_option, cluster_option
from fairlead.cli.printing import print_lines
from fairlead.core.errors import FairleadError, NoAnswerError, ServerError, UsageError

UNKNOWN = "unknown"
_EVERY_S = 2.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@click.command()
@click.argument("job_id", metavar="JOBID")
@cluster_option
@click.option("--line", is_flag=True, help="One line, such as for a job's comment.")
@add_wait_option("With a job that just ended: how long to wait for its summary.")
@add_lake_option("Ask this lake. Default: the server of this machine, else $FAIRLEAD_LAKE.")
@add_server_options()
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def seff(
    job_id: str,
    cluster: str,
    line: bool,
    wait_s: float,
    root: Path | None,
    server: str | None,
    token: Path | None,
    authority: Path | None,
    as_json: bool,
) -> None:
    """Show how a job used what it had: time, volumes, bandwidth, share of its time in I/O.

    The figures are those of its stored summary, as `fairlead job show` prints them. What is not known is said. If
    several runs have this number, the latest is shown.
    """
    from fairlead.core import clock

    until_s = clock.monotonic_s() + wait_s
    while True:
        late = clock.monotonic_s() >= until_s
        try:
            found = _ask(job_id, cluster, root, server, token, authority)
            if found["final"] or late:
                break
        except (UsageError, NoAnswerError):  # not heard of yet
            if late:
                raise
        clock.sleep_s(_EVERY_S)
    if as_json:
        click.echo(json.dumps(found))
    elif line:
        print_lines(format_efficiency_line(found))
    else:
        print_lines(*format_efficiency(found))


def _ask(
    job_id: str, cluster: str, root: Path | None, server: str | None, token: Path | None, authority: Path | None
) -> dict[str, Any]:
    from fairlead.core.access.server_client import read_server_token, request_server

    secret = read_server_token(token)
    if root is None and not server:
        server, secret = _find_local_api(secret)
    if root is not None or not server:
        return _ask_lake(job_id, cluster, root)
    from urllib.parse import quote

    path = f"/api/v1/jobs/{quote(job_id, safe='')}/seff" + (f"?cluster={quote(cluster, safe='')}" if cluster else "")
    body = request_server(server, path, token=secret, authority=authority)
    try:
        found: dict[str, Any] = json.loads(body)
        found["job"]["job_id"]
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(
            "not a fairlead response", where=server, remedy="check --server, or upgrade fairlead"
        ) from error
    return found


def _find_local_api(secret: str) -> tuple[str | None, str]:
    """The API of the server whose lake is the default one, and a token for it: its owner's, unless one is given."""
    from fairlead.core.access.server_client import read_server_token
    from fairlead.store.lake_folder import find_default_lake_folder

    state = find_default_lake_folder().absolute().parent
    try:
        address = json.loads((state / "addresses.json").read_bytes())["api"][0]
        secret = secret or read_server_token(state / "operator.token")
    except (OSError, ValueError, KeyError, IndexError, TypeError, FairleadError):
        return None, ""
    kind, _, rest = str(address).partition(":")
    return (f"http://{rest}" if kind == "tcp" else str(address) if kind == "unix" else None), secret


def _ask_lake(job_id: str, cluster: str, root: Path | None) -> dict[str, Any]:
    import msgspec

    from fairlead.cli.ask import Asker

    answer = Asker(root, None, None).ask("job_efficiency", job_id, cluster=cluster)
    found: dict[str, Any] = json.loads(msgspec.json.encode(answer))
    return found


def format_efficiency(found: dict[str, Any]) -> list[str]:
    """Return the lines for a person; `found`: the document `fairlead.seff/1`."""
    job, summary = found["job"], found.get("summary") or {}
    sums = job.get("sums") or {}
    rates = {way: summary.get(f"{way}_bandwidth_bytes_per_s") for way in ("read", "write")}
    at = {way: f", {_rate(value)} in phases" if value else "" for way, value in rates.items()}
    rows = [
        ("Job", job["job_id"] + (f" of {job['cluster']}" if job.get("cluster") else "")),
        ("User, project", f"{job.get('user') or UNKNOWN}, {job.get('project') or UNKNOWN}"),
        ("State", "RUNNING" if job.get("running") else job.get("state") or UNKNOWN),
        ("Nodes, cores", f"{_number(job.get('nodes_count'))}, {_number(job.get('cores'))}"),
        ("Wall-clock time", _time(found.get("elapsed_s"))),
        ("CPU efficiency", f"{UNKNOWN} (not in the accounting that fairlead reads)"),
        ("Memory efficiency", f"{UNKNOWN} (not in the accounting that fairlead reads)"),
        ("Read", f"{_size(sums.get('read_bytes'))}{at['read']}"),
        ("Written", f"{_size(sums.get('write_bytes'))}{at['write']}"),
        ("Metadata", f"{_number(sums.get('metadata_ops'))} operations"),
        ("Time in I/O", _share(found.get("io_share")) + " of its processes' time"),
        ("Counted at", (job.get("layer") or UNKNOWN) + ("" if found.get("final") else " (so far: no final summary)")),
    ]
    return [f"{name:<18}{text}" for name, text in rows]


def format_efficiency_line(found: dict[str, Any]) -> str:
    """Return one line of at most 200 characters, for a job's comment."""
    job, summary = found["job"], found.get("summary") or {}
    sums = job.get("sums") or {}
    parts = [
        f"read {_size(sums.get('read_bytes'))}",
        f"written {_size(sums.get('write_bytes'))}",
        f"metadata ops {_number(sums.get('metadata_ops'))}",
        f"I/O time {_share(found.get('io_share'))}",
    ]
    if summary.get("write_bandwidth_bytes_per_s"):
        parts.append(f"writes at {_rate(summary['write_bandwidth_bytes_per_s'])}")
    if summary.get("read_bandwidth_bytes_per_s"):
        parts.append(f"reads at {_rate(summary['read_bandwidth_bytes_per_s'])}")
    return ("fairlead: " + ", ".join(parts) + ("" if found.get("final") else " (so far)"))[:200]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _size(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    size, unit = float(value), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{value:,.0f} B" if unit == 0 else f"{size:.4g} {_UNITS[unit]}"


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{_size(value)}/s"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"
