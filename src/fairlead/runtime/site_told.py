"""The site file of a server, read for its questions. Not here: its mappings (`analysis_loop.take_site`)."""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.site_facts import SiteFacts


def site_facts(file: str) -> SiteFacts | None:
    """Facts of the site file; None where none is set. Raises ConfigError, InputError."""
    if not file:
        return None
    from fairlead.model.site import parse_site
    from fairlead.model.site_facts import facts_of
    from fairlead.sources.slurm.hostlist import expand_hostlist

    try:
        content = Path(file).read_bytes()
    except OSError as fault:
        raise InputError((fault.strerror or str(fault)).lower(), where=file, remedy="check server.site") from fault
    return facts_of(parse_site(content, file), expand_hostlist)
