"""Sources by name: built-ins in one table, imported when asked for; a site's own through `fairlead.sources`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from fairlead.core.errors import FairleadError, SourceDefectError
from fairlead.core.extensions import (
    OWN,
    Guarded,
    build_extension_defect,
    describe_extension_defect,
    describe_extension_package,
    find_extensions,
    load_extension,
    load_extension_object,
)
from fairlead.core.model.job import Job
from fairlead.core.model.missing import Missing
from fairlead.core.model.tables import TABLES
from fairlead.see.sources.base import Source

GROUP = "fairlead.sources"
SOURCES: dict[str, str] = {
    "darshan": "fairlead.see.sources.darshan:DarshanSource",
    "dftracer": "fairlead.see.sources.dftracer:DFTracerSource",
    "spool": "fairlead.see.sources.spool:SpoolSource",
    "slurm": "fairlead.see.sources.slurm:SlurmSource",
    "lmt": "fairlead.see.sources.lmt:LmtSource",
    "jobsdb": "fairlead.see.sources.jobsdb:JobsDbSource",
    "tokio": "fairlead.see.sources.tokio:TokioSource",
    "collectd": "fairlead.see.sources.collectd:CollectdSource",
    "gpfs": "fairlead.see.sources.gpfs:GpfsSource",
    "lfs": "fairlead.see.sources.lfs:LfsSource",
    "beacon": "fairlead.see.sources.beacon:BeaconSource",
    "counters": "fairlead.see.sources.counters:CountersSource",
}
"""Tried in this order when content is detected: the most specific magic first."""


def list_registered_sources() -> list[str]:
    """Names of all sources in the order they are tried: built-ins, then entry points of `fairlead.sources`."""
    return [*SOURCES, *sorted(find_extensions(GROUP).keys() - SOURCES.keys())]


@cache
def load_registered_source(name: str) -> Source:
    """The source of that name, guarded; its module is imported now. Raises KeyError for an unknown name, PluginError
    for a plug-in that cannot be loaded."""
    if name in SOURCES:
        return _guard_source(name, load_extension_object(SOURCES[name])(), OWN)  # type: ignore[operator]
    kind = load_extension(GROUP, name)
    package = describe_extension_package(find_extensions(GROUP)[name])
    try:
        return _guard_source(name, kind(), package)
    except Exception as fault:
        raise build_extension_defect(GROUP, name, fault) from fault


def _guard_source(name: str, source: object, package: str) -> Source:
    """`source`, whose failures are `SourceDefectError` with the file they left out, and say whose defect it is."""

    def explain(fault: Exception, arguments: tuple[Any, ...]) -> FairleadError:
        paths = [str(argument) for argument in arguments if isinstance(argument, Path)]
        what = f"{describe_extension_defect(GROUP, name, package, fault)}; the file is left out"
        return SourceDefectError(
            what, where=paths[0] if paths else None, remedy=f"report it to the authors of {package}"
        )

    return cast("Source", Guarded(source, explain, _check_item))


def _check_item(item: object) -> None:
    """Raises TypeError for what no source may yield."""
    if isinstance(item, pa.RecordBatch):
        name = (item.schema.metadata or {}).get(b"fairlead.table", b"").decode()
        if name not in TABLES:
            raise TypeError(f"it yields a batch of an unknown table ({name or 'no name'})")
    elif not isinstance(item, Job | Missing):
        raise TypeError(f"it yields {type(item).__name__}, not a batch, Job or Missing")
