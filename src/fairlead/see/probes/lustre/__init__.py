"""Probes of Lustre 2.5 to 2.16: clients, OSS, MDS, from the kernel's files or `lctl get_param`.

Not here: other file systems, deltas. `PROBES` names every probe class, for who makes them by name.
"""

from typing import Dict, Type

from fairlead.see.probes.lustre.client import LliteProbe, MdcProbe, OscProbe
from fairlead.see.probes.lustre.exports import MdtExportsProbe, OstExportsProbe
from fairlead.see.probes.lustre.jobs import MdtJobsProbe, OstJobsProbe
from fairlead.see.probes.lustre.lustre_probe import LustreProbe
from fairlead.see.probes.lustre.servers import BrwProbe, MdtProbe, OstProbe
from fairlead.see.probes.lustre.space import SpaceProbe
from fairlead.see.probes.lustre.states import LnetProbe, StatesProbe

PROBES: Dict[str, Type[LustreProbe]] = {
    kind.name: kind
    for kind in (
        LliteProbe,
        OscProbe,
        MdcProbe,
        OstProbe,
        BrwProbe,
        OstJobsProbe,
        OstExportsProbe,
        MdtProbe,
        MdtJobsProbe,
        MdtExportsProbe,
        SpaceProbe,
        StatesProbe,
        LnetProbe,
    )
}
"""By name; each is made with `(root, node)` and what its own docstring names."""

__all__ = ["PROBES", "LustreProbe"]
