"""A forwarder as a program: from options to a server, until SIGTERM. Not here: the command line (`cli.forwarder`)."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.access.tls import build_tls_server_context
from fairlead.core.access.tokens import read_token_key
from fairlead.core.errors import UsageError
from fairlead.decide.policies.requests import Limits, Rate, build_discipline
from fairlead.steer.forwarding.forwarder.admission import require_admission_key
from fairlead.steer.forwarding.forwarder.job_settings import (
    Cache,
    JobPart,
    JobSettings,
    SettingsFile,
    read_job_settings,
)
from fairlead.steer.forwarding.forwarder.read_cache import with_read_cache
from fairlead.steer.forwarding.forwarder.server import Server, Settings
from fairlead.steer.fs.operations.dispatch import Operations
from fairlead.steer.fs.trees import unlinked_files as kept
from fairlead.steer.fs.trees.open_tree import open_export
from fairlead.steer.fs.wire.address import Address, parse_address
from fairlead.steer.fs.wire.handshake import Feature

if TYPE_CHECKING:
    from fairlead.steer.forwarding.forwarder.records import ForwarderRecords
    from fairlead.steer.fs.trees.base import FileTree

log = logging.getLogger("fairlead.forwarder")
_SEED = 1
STOP_S = 10.0
"""How long a forwarder that is to end waits for what is being carried out."""


@dataclass(slots=True)
class Options:
    """What `fairlead forwarder run` is told. Sizes in bytes."""

    export: str
    listen: Sequence[str]
    workers: int = 16
    discipline: str = "job-fair"
    token_key: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    spool: Path | None = None
    read_ahead: int = 0
    cache: int = 0
    job_settings: Path | None = None
    sole: bool = False
    descriptors: bool = False
    name: str = ""
    grace_s: float = 10.0
    allow: Sequence[str] = ()
    job_key: Path | None = None


def run_forwarder(
    options: Options, ready: Callable[[Address], None], *, open_tree: Callable[[str], FileTree] = open_export
) -> None:
    """Serves until SIGTERM or SIGINT; SIGUSR2 pauses its records, SIGUSR1 resumes them. `ready` is called with each
    address when it is listened on, `open_tree` with what is exported.

    Raises ForwardingError (a tree or an address that cannot be used), UsageError and ConfigError (an option).
    """
    addresses = [parse_address(text) for text in options.listen]
    settings = _settings(options, addresses)
    for address in addresses:
        require_admission_key(address, settings.key)
    queue = build_discipline(options.discipline, workers=options.workers, seed=_SEED)
    _raise_descriptor_limit()
    reading = _job_settings(options)
    reading.limit(queue.limits)
    exported = open_tree(options.export)
    tree = with_read_cache(exported, reading, sole=options.sole)
    _pace_targets(exported, queue.limits)
    records = _records(options, settings.name, exported, tree)
    stopping = list_run_end_signals()
    awaited = (*stopping, signal.SIGUSR1, signal.SIGUSR2)
    # The threads inherit the mask, so that the signal waits for this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        server = Server(
            Operations(tree), queue, settings, records=records, intents_folder=_intents_folder(options, exported)
        )
        bound = []
        try:
            bound = [server.listen(address) for address in addresses]
            if records is not None:
                records.start()
            server.start()
            for address in bound:
                ready(address)
            while (number := signal.sigwait(awaited)) not in stopping:
                if records is not None:
                    records.on = number == signal.SIGUSR1
        finally:
            server.close(STOP_S)
            if records is not None:
                records.close()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)


def list_run_end_signals() -> tuple[signal.Signals, ...]:
    """What ends a service cleanly: SIGTERM, SIGINT, and a terminal that is closed, unless nohup has it ignored."""
    asked = (signal.SIGTERM, signal.SIGINT)
    return asked if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (*asked, signal.SIGHUP)


def _settings(options: Options, addresses: Sequence[Address]) -> Settings:
    features = [Feature.SLOTS, Feature.CHECKSUM]
    if options.descriptors:
        features.append(Feature.DESCRIPTORS)
    elif options.sole:  # who has a descriptor changes a file without anybody being told
        features.append(Feature.LEASES)
    tls = None
    if any(address.kind == "tls" for address in addresses):
        if options.tls_cert is None or options.tls_key is None:
            raise UsageError(
                "a tls: address needs a certificate",
                remedy="fairlead token tls DIR --host NAME makes one; give --tls-cert and --tls-key",
            )
        tls = build_tls_server_context(options.tls_cert, options.tls_key)
    elif options.tls_cert is not None or options.tls_key is not None:
        raise UsageError("a certificate or its key is given, but no tls: address", remedy="give --listen tls:HOST:PORT")
    return Settings(
        name=options.name or f"{socket.gethostname()}-{os.getpid()}",
        workers=options.workers,
        key=read_token_key(options.token_key) if options.token_key is not None else None,
        tls=tls,
        grace_s=options.grace_s,
        features=tuple(features),
        allow=frozenset(options.allow),
        key_file=options.token_key,
        job_key=read_token_key(options.job_key) if options.job_key is not None else None,
    )


def _job_settings(options: Options) -> JobSettings:
    if options.job_settings is not None:
        if options.read_ahead or options.cache:
            raise UsageError(
                "--read-ahead and --cache do not go with --job-settings",
                remedy="write read_ahead under [default] and size under [cache] in the file",
            )
        return read_job_settings(options.job_settings)
    if not options.read_ahead and not options.cache:
        return JobSettings()
    part = JobPart(read_ahead=options.read_ahead or None, cache=True)
    return JobSettings(SettingsFile(default=part, cache=Cache(options.cache) if options.cache else Cache()))


def _records(options: Options, name: str, exported: FileTree, tree: FileTree) -> ForwarderRecords | None:
    if options.spool is None:
        return None

    from fairlead.steer.forwarding.forwarder.records import build_forwarder_records

    cache = getattr(tree, "cache", None) if tree is not exported else None
    return build_forwarder_records(exported, options.spool, name, None if cache is None else cache.read_counters)


def _intents_folder(options: Options, exported: FileTree) -> int | None:
    """Where intents of this tree are kept, for all its forwarders to see; None where there is no such place."""
    own_folder: Callable[[bytes], int] | None = getattr(exported, "open_own_folder", None)
    try:
        if own_folder is not None:
            return own_folder(b"intents")
        root = os.open(options.export, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return kept.open_unlinked_folder(root, b"intents")
        finally:
            os.close(root)
    except OSError as error:
        log.warning("no intents can be kept (%s): a request that a client sends again may be done twice", error)
        return None


def _pace_targets(exported: FileTree, limits: Limits) -> None:
    """Targets that are held to a rate: the queue does it, so that no worker waits for one."""
    rates: Callable[[], dict[str, int]] | None = getattr(exported, "list_target_rates", None)
    pace_outside: Callable[[], None] | None = getattr(exported, "disable_pacing", None)
    if rates is None or pace_outside is None:
        return
    for target, bytes_per_s in rates().items():
        limits.rate_target(target, Rate(bytes_per_s))
    pace_outside()


def _raise_descriptor_limit() -> None:
    """Every open file of every client is a descriptor here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
