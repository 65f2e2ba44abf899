"""The spool of a mount or forwarder, or an error to act on. Not here: the spool itself
(`fairlead.core.batches.spool`).
"""

from __future__ import annotations

import os

from fairlead.core.batches.spool import Spool
from fairlead.core.clock import now_ns
from fairlead.core.errors import ForwardingError


def open_record_spool(folder: str | os.PathLike[str], *, node: str, writer: str, layer: str = "client") -> Spool:
    """A writer's way into the spool in `folder`. Raises ForwardingError when nothing can be written there."""
    try:
        return Spool(folder, node=node, writer=writer, layer=layer, clock=now_ns)
    except OSError as fault:
        raise ForwardingError(
            f"records cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(folder),
            remedy="give --spool a folder that may be written, or leave it out to record nothing",
        ) from fault
