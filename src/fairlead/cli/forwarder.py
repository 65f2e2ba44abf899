"""`fairlead forwarder`: serves a tree of files to mounts. Not here: the serving (`services.forwarding.forwarder`)."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from fairlead.cli.messages import quiet, say
from fairlead.cli.quantities import Seconds, Size

_file = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option(
    "--export",
    required=True,
    metavar="DIR|targets:FILE",
    help="What is served: a directory, or a tree striped over storage targets.",
)
@click.option(
    "--listen",
    multiple=True,
    required=True,
    metavar="ADDRESS",
    help="unix:PATH, tcp:HOST:PORT or tls:HOST:PORT (repeatable). Port 0: any free one.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    metavar="N",
    help="Requests carried out at the same time, at most.",
)
@click.option(
    "--discipline",
    default="job-fair",
    show_default=True,
    metavar="SPEC",
    help="Which request is next: fifo (who came first), metadata-first, share:P (metadata with probability "
    "P), job-fair (jobs in turn), set-10 (short iterations first) or exclusive (one job at a time); "
    "then shares of workers, and bytes or operations a second, as "
    "job-fair,cap-job:0.5,rate-job:100M,rate-job:lammps=200ops.",
)
@click.option("--job-settings", type=_file, metavar="FILE", help="Read-ahead, cache and rates of single jobs (TOML).")
@click.option(
    "--token-key",
    type=_file,
    metavar="FILE",
    help="Clients on a network must show a token made with this key (fairlead token).",
)
@click.option("--tls-cert", type=_file, metavar="FILE", help="Certificate shown on tls: addresses (PEM).")
@click.option("--tls-key", type=_file, metavar="FILE", help="Its key (PEM).")
@click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write records of what was served there, for `fairlead ingest`.",
)
@click.option(
    "--read-ahead",
    type=Size("1G"),
    default="0",
    metavar="SIZE",
    help="Read this far ahead of sequential readers, as 256K or 4M (powers of 1024). Default: not at all.",
)
@click.option(
    "--cache",
    type=Size("1T"),
    default="0",
    metavar="SIZE",
    help="Memory for what is read ahead and read again, as 512M or 4G. Default: none, or 64M with --read-ahead.",
)
@click.option(
    "--sole",
    is_flag=True,
    help="Nobody else changes this tree: what is cached is served without a look at it, and mounts may cache "
    "(--cache).",
)
@click.option(
    "--descriptors",
    is_flag=True,
    help="Let clients of this machine that ask for it have the descriptors of open files, so that their "
    "data need not come through here.",
)
@click.option(
    "--grace",
    "grace_s",
    type=Seconds(3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long open files and locks outlive a lost connection.",
)
@click.option("--name", default="", metavar="NAME", help="Its name in records. Default: host and process.")
def forwarder(
    export: str,
    listen: tuple[str, ...],
    workers: int,
    discipline: str,
    job_settings: Path | None,
    token_key: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    spool: Path | None,
    read_ahead: int,
    cache: int,
    sole: bool,
    descriptors: bool,
    grace_s: float,
    name: str,
) -> None:
    """Serve a tree of files to mounts, until SIGTERM.

    Runs in the foreground. Prints one line `ready ADDRESS` on stderr for each address when clients may come. On a unix
    socket everyone acts as who he is; beyond this machine a token is needed.
    """
    from fairlead.steer.forwarding.forwarder.run import Options, run_forwarder

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.ERROR if quiet() else logging.INFO)
    options = Options(
        export=export,
        listen=listen,
        workers=workers,
        discipline=discipline,
        token_key=token_key,
        tls_cert=tls_cert,
        tls_key=tls_key,
        spool=spool,
        read_ahead=read_ahead,
        cache=cache,
        job_settings=job_settings,
        sole=sole,
        descriptors=descriptors,
        name=name,
        grace_s=grace_s,
    )
    run_forwarder(options, lambda address: say(f"ready {address}"))
