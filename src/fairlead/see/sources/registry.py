"""Sources by name: built-ins in one table, imported when asked for; a site's own through `fairlead.sources`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fairlead.core.extensions import find_extensions, load_object

if TYPE_CHECKING:
    from fairlead.see.sources.base import Source

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


def list_source_names() -> list[str]:
    """Names of all sources in the order they are tried: built-ins, then entry points of `fairlead.sources`."""
    return [*SOURCES, *sorted(find_extensions("fairlead.sources").keys() - SOURCES.keys())]


@cache
def load_source(name: str) -> Source:
    """The source of that name; its module is imported now. Raises KeyError for an unknown name."""
    if name in SOURCES:
        return load_object(SOURCES[name])()  # type: ignore[operator, no-any-return]
    return find_extensions("fairlead.sources")[name].load()()  # type: ignore[no-any-return]


def load_sources() -> dict[str, Source]:
    """All sources by name, all imported."""
    return {name: load_source(name) for name in list_source_names()}
