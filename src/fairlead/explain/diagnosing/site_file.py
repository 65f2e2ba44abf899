"""The site file of a server: its facts for questions, its mappings for the lake."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.core.errors import InputError
from fairlead.core.model.site_facts import SiteFacts

if TYPE_CHECKING:
    from fairlead.core.model.site_file import SiteFile
    from fairlead.explain.analysis.system.system_site import SystemSite


def read_site_file_facts(file: str) -> SiteFacts | None:
    """Facts of the site file; None where none is set. Raises ConfigError, InputError."""
    if not file:
        return None
    from fairlead.core.model.site_facts import find_site_facts
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    return find_site_facts(_site(file), expand_hostlist)


def read_system_site_file(file: str) -> SystemSite:
    """What a look at the whole system wants to know of the site file; nothing is told where none is set. Raises
    ConfigError, InputError."""
    from fairlead.explain.analysis.system.system_site import SystemSite, build_system_site
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    return build_system_site(_site(file), expand_hostlist) if file else SystemSite()


def _site(file: str) -> SiteFile:
    from fairlead.core.model.site_file import parse_site_file

    try:
        content = Path(file).read_bytes()
    except OSError as fault:
        what = (fault.strerror or str(fault)).lower()
        raise InputError(what, where=file, remedy="check --site, or server.site") from fault
    return parse_site_file(content, file)


class Output(Protocol):
    """Where summaries go (`lake.writer.Writer` is one)."""

    def open_batch(self, stream: str, seq: int = 0, *, source: str = "", path: str = "") -> Any:
        """A batch to fill and commit."""


def write_site_file_mappings(writer: Output, file: str) -> bool:
    """Writes the mappings of the site file into the lake, once for each content; False when they are there already or
    no file is set. Raises ConfigError, InputError."""
    if not file:
        return False
    from fairlead.core.model.site_file import build_site_file_mapping, parse_site_file
    from fairlead.see.sources.slurm.hostlist import expand_hostlist

    try:
        content = Path(file).read_bytes()
    except OSError as fault:
        raise InputError((fault.strerror or str(fault)).lower(), where=file, remedy="check server.site") from fault
    rows = build_site_file_mapping(parse_site_file(content, file), expand_hostlist)
    batch = writer.open_batch(f"site/{blake2b(content, digest_size=8).hexdigest()}", source="site", path=file)
    batch.add(rows)
    return bool(batch.commit())
