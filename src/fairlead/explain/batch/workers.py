"""Who does heavy work: this process, a local Dask cluster, a Dask scheduler elsewhere, or workers that Slurm starts.

All of them take a function and pieces, and give results back as they are done. A worker that dies is no matter: its
pieces are done again by others. Not here: what is done. Dask is imported only when it is wanted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

import fairlead
from fairlead.core.errors import InputError, MissingDependencyError, NoAnswerError, ServerError, UsageError
from fairlead.explain.batch.settings import Settings, Slurm

INSTALL = "pip install 'fairlead[heavy]'"
HERE = "here"
RETRIES = 2
"""A piece that failed is tried so often again: a file may have been removed by a merge meanwhile."""
CONNECT_S = 15.0
NO_PAGE = "127.0.0.1:0"
"""Where Dask's own pages are: it has no way not to serve any, so nobody else reaches them."""
DEATHS = 5
"""A piece that so many workers died of is given up: it does not fit into their memory."""
FIRST_WORKER_S = 3600.0
"""Workers may wait in Slurm's queue so long before the first begins."""
P = TypeVar("P")
R = TypeVar("R")


class Workers(Protocol):
    """Whoever can work on pieces."""

    def run_each(self, function: Callable[..., R], pieces: Sequence[P], **fixed: object) -> Iterator[tuple[P, R]]:
        """(piece, `function(piece, **fixed)`) of every piece, in the order they are done. `function` is one of a
        module, changes nothing, and may run more than once. Raises what it raises."""
        ...


class LocalWorkers:
    """This process, one piece after the other."""

    def run_each(self, function: Callable[..., R], pieces: Sequence[P], **fixed: object) -> Iterator[tuple[P, R]]:
        """See `Workers`."""
        for piece in pieces:
            yield piece, function(piece, **fixed)


class DaskWorkers:
    """Workers of a Dask client. Only pieces and results pass through its scheduler, never records."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run_each(self, function: Callable[..., R], pieces: Sequence[P], **fixed: object) -> Iterator[tuple[P, R]]:
        """See `Workers`. Raises ServerError when workers keep dying."""
        distributed = _imported("distributed")
        futures: dict[Any, P] = {
            # Not pure: a result that another run left in the scheduler is of the lake as it was then.
            self._client.submit(
                run_on_worker, fairlead.__version__, function, piece, dict(fixed), pure=False, retries=RETRIES
            ): piece
            for piece in pieces
        }
        try:
            for future in distributed.as_completed(list(futures), loop=self._client.loop):
                try:
                    result = future.result()
                except distributed.KilledWorker as death:
                    raise ServerError(
                        f"a worker died {DEATHS} times on the same piece of work",
                        remedy="give workers more memory, or their queries a smaller --memory",
                    ) from death
                except distributed.client.FutureCancelledError as loss:
                    raise ServerError(
                        "the Dask scheduler was lost", remedy="run it again: it continues where it stopped"
                    ) from loss
                yield futures.pop(future), result
                future.release()
        finally:
            self._client.cancel(list(futures))


def run_on_worker(version: str, function: Callable[..., R], piece: object, fixed: Mapping[str, object]) -> R:
    """What a worker runs. Raises UsageError when it is of another fairlead."""
    if version != fairlead.__version__:
        raise UsageError(
            f"the worker has fairlead {fairlead.__version__}, not {version}", remedy="install the same on both"
        )
    return function(piece, **fixed)


@contextmanager
def start_workers(where: str, settings: Settings | None = None, *, count: int | None = None) -> Iterator[Workers]:
    """Workers while the block runs. `where`: `here`, `threads`, `processes`, `slurm`, or the address of a scheduler
    (`tcp://HOST:PORT`, `tls://HOST:PORT`); `count` of them, where they are started here (default: one a processor).

    Raises UsageError, MissingDependencyError, NoAnswerError (no scheduler there), ServerError.
    """
    if where == HERE:
        yield LocalWorkers()
        return
    if where in ("threads", "processes"):
        with _local(count, processes=where == "processes") as client:
            yield DaskWorkers(client)
    elif where == "slurm":
        with _slurm((settings or Settings()).slurm, count) as client:
            yield DaskWorkers(client)
    elif where.startswith(("tcp://", "tls://")):
        with _remote(where) as client:
            yield DaskWorkers(client)
    else:
        raise UsageError(
            f"not a place to run: {where!r}", remedy="here, threads, processes, slurm, or a scheduler's tcp://HOST:PORT"
        )


def _imported(name: str) -> Any:
    """A module of the extra `heavy`. Raises MissingDependencyError."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(f"{name} is not installed", remedy=INSTALL) from error


def _settings_of_dask() -> Any:
    """What holds of Dask while workers are there. Raises MissingDependencyError."""
    _imported("distributed")  # brings its settings along: they would vanish with these
    return _imported("dask").config.set({"distributed.scheduler.allowed-failures": DEATHS})


def _certificates(distributed: Any) -> Any:
    """TLS for this run alone: whoever reaches a scheduler without it may run programs as its user. Raises
    MissingDependencyError."""
    try:
        return distributed.Security.temporary()
    except ImportError as error:
        raise MissingDependencyError(
            "TLS between scheduler and workers needs cryptography", remedy="pip install cryptography"
        ) from error


@contextmanager
def _local(count: int | None, *, processes: bool) -> Iterator[Any]:
    with _settings_of_dask():
        distributed = _imported("distributed")
        processors = len(os.sched_getaffinity(0))
        many = count or processors
        options: dict[str, Any] = {"dashboard_address": NO_PAGE, "silence_logs": logging.CRITICAL, "memory_limit": 0}
        if processes:
            # The query engine of each takes as many threads as this says, instead of one a processor.
            share = {"SLURM_CPUS_ON_NODE": str(max(1, processors // many))}
            options |= {"n_workers": many, "threads_per_worker": 1, "env": share, "host": "127.0.0.1"}
            options |= {"protocol": "tls://", "security": _certificates(distributed)}
        else:
            options |= {"n_workers": 1, "threads_per_worker": many}
        with (
            distributed.LocalCluster(processes=processes, **options) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client


@contextmanager
def _remote(address: str) -> Iterator[Any]:
    with _settings_of_dask():
        distributed = _imported("distributed")
        try:
            client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise NoAnswerError(
                "no Dask scheduler responds", where=address, remedy="dask scheduler; check the address and TLS settings"
            ) from error
        with client:
            try:
                client.wait_for_workers(1, timeout=CONNECT_S)
            except TimeoutError as error:
                raise NoAnswerError("the scheduler has no workers", where=address, remedy="dask worker") from error
            yield client


@contextmanager
def _slurm(asked: Slurm, count: int | None) -> Iterator[Any]:
    with _settings_of_dask():
        distributed = _imported("distributed")
        with ExitStack() as held:
            cluster = held.enter_context(create_slurm_workers(asked, _kept_certificates(asked, distributed, held)))
            cluster.scale(jobs=count or asked.jobs)
            with distributed.Client(cluster, set_as_default=False) as client:
                try:
                    client.wait_for_workers(1, timeout=FIRST_WORKER_S)
                except TimeoutError as error:
                    raise ServerError("Slurm started no worker in an hour", remedy="squeue --me; sinfo") from error
                yield client


def _kept_certificates(asked: Slurm, distributed: Any, held: ExitStack) -> Any:
    """TLS whose certificates lie in a folder of one's own that workers see, until `held` ends; None: no TLS is wanted.
    Raises InputError when they cannot be put there."""
    if not asked.tls:
        return None
    made, shared = _certificates(distributed), Path(asked.shared_directory).expanduser()
    try:
        folder = Path(held.enter_context(TemporaryDirectory(prefix=".fairlead-dask-", dir=shared)))
        paths = {"cert": folder / "cert.pem", "key": folder / "key.pem"}
        paths["cert"].write_text(made.tls_client_cert, encoding="ascii")
        paths["key"].write_text(made.tls_client_key, encoding="ascii")
    except OSError as error:
        raise InputError(
            f"certificates cannot be written: {error.strerror}", where=str(shared), remedy="set slurm.shared_directory"
        ) from error
    roles = {
        f"tls_{role}_{kind}": str(path) for role in ("client", "scheduler", "worker") for kind, path in paths.items()
    }
    return distributed.Security(require_encryption=True, tls_ca_file=str(paths["cert"]), **roles)


def create_slurm_workers(asked: Slurm, security: Any = None) -> Any:
    """A cluster without workers yet. Raises MissingDependencyError when dask-jobqueue is lacking."""
    jobqueue = _imported("dask_jobqueue")
    options: dict[str, Any] = {
        "cores": asked.cores,
        "memory": asked.memory,
        "processes": asked.processes,
        "walltime": asked.walltime,
        "job_name": "fairlead-worker",
        "local_directory": asked.local_directory,
        "job_extra_directives": list(asked.directives),
        "job_script_prologue": list(asked.prologue),
        "worker_extra_args": ["--no-dashboard"],
    }
    named = {
        "queue": asked.queue,
        "account": asked.account,
        "interface": asked.interface,
        "python": asked.python,
        "log_directory": asked.logs,
    }
    options |= {name: value for name, value in named.items() if value}
    scheduler: dict[str, Any] = {"dashboard": False, "dashboard_address": NO_PAGE}
    if asked.scheduler_interface:
        scheduler["interface"] = asked.scheduler_interface
    if security is not None:
        options |= {"protocol": "tls://", "security": security}
    return jobqueue.SLURMCluster(scheduler_options=scheduler, **options)
