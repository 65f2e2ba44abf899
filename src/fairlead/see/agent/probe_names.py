"""The probes by name, and how they are made when they are wanted. Not here: what they read (`fairlead.see.probes`)."""

from importlib import import_module
from typing import Any, Dict, List, Sequence, Tuple, Type

from fairlead.see.agent.settings import ProbeSettings, SettingError
from fairlead.see.agent.site_probes import FILE, find_site_probe, make_site_probe
from fairlead.see.probes.base import Probe

_LUSTRE = "fairlead.see.probes.lustre."
PROBES = {
    "lustre_llite": _LUSTRE + "client:LliteProbe",
    "lustre_osc": _LUSTRE + "client:OscProbe",
    "lustre_mdc": _LUSTRE + "client:MdcProbe",
    "lustre_ost": _LUSTRE + "servers:OstProbe",
    "lustre_brw": _LUSTRE + "servers:BrwProbe",
    "lustre_mdt": _LUSTRE + "servers:MdtProbe",
    "lustre_ost_jobs": _LUSTRE + "jobs:OstJobsProbe",
    "lustre_mdt_jobs": _LUSTRE + "jobs:MdtJobsProbe",
    "lustre_ost_exports": _LUSTRE + "exports:OstExportsProbe",
    "lustre_mdt_exports": _LUSTRE + "exports:MdtExportsProbe",
    "lustre_space": _LUSTRE + "space:SpaceProbe",
    "lustre_states": _LUSTRE + "states:StatesProbe",
    "lustre_lnet": _LUSTRE + "states:LnetProbe",
    "gluster": "fairlead.see.probes.gluster:Volumes",
    "gluster_client": "fairlead.see.probes.gluster:Clients",
    "nfs": "fairlead.see.probes.nfs:NfsMounts",
    "nfsd": "fairlead.see.probes.nfs:NfsServer",
    "gpfs": "fairlead.see.probes.gpfs:Performance",
    "disks": "fairlead.see.probes.diskstats:Diskstats",
    "infiniband": "fairlead.see.probes.infiniband:Ports",
    "switches": "fairlead.see.probes.infiniband:Switches",
    "job_disks": "fairlead.see.probes.job_disks:JobDisks",
    "jobs": "fairlead.see.probes.node_jobs:NodeJobs",
    "space": "fairlead.see.probes.space:Mounts",
    "usage": "fairlead.see.probes.space:Usage",
    "events": "fairlead.see.probes.log_events:LogEvents",
    "canary": "fairlead.see.probes.canary:Canary",
}
"""Name → module:class. `auto` takes all that find something; a look for the others costs little, every five minutes."""
GROUPS = {
    "lustre_client": ("lustre_llite", "lustre_osc", "lustre_mdc"),
    "lustre_oss": ("lustre_ost", "lustre_brw", "lustre_ost_jobs", "lustre_ost_exports", "lustre_space"),
    "lustre_mds": ("lustre_mdt", "lustre_mdt_jobs", "lustre_mdt_exports", "lustre_space"),
}
"""Names for several."""
ON_REQUEST = ("switches", "gpfs", "canary")
"""Not in `auto`: one node of a site looks at them for all, and a canary writes."""
_LISTS = ("lctl", "command", "commands", "paths", "files", "targets", "mds")
"""Options of probes that are several words."""
_TRUTH = {"yes": True, "true": True, "no": False, "false": False}


def expand_probe_names(wanted: Sequence[str], site: Sequence[str] = ()) -> List[str]:
    """The probes meant by a list of names, groups and `auto`, then `site`: those a section names a file for. Raises
    SettingError for one that is not known, not even as an entry point of an installed package."""
    found: List[str] = []
    for said in wanted:
        name = said.replace("-", "_")
        if name == "auto":
            found += [one for one in PROBES if one not in ON_REQUEST]
        elif name in GROUPS:
            found += GROUPS[name]
        elif name in PROBES or name in site or find_site_probe(name) is not None:
            found.append(name)
        else:
            there = ", ".join(sorted([*PROBES, *GROUPS]))
            raise SettingError("unknown probe {!r}; available: auto, {}".format(said, there))
    return list(dict.fromkeys([*found, *site]))


def list_named_probes(wanted: Sequence[str]) -> List[str]:
    """The probes asked for by name or group, not by `auto`: their absence is worth telling."""
    named = [said.replace("-", "_") for said in wanted if said != "auto"]
    return expand_probe_names(named, [name for name in named if name not in PROBES and name not in GROUPS])


def make_named_probe(name: str, root: str, node: str, told: ProbeSettings) -> Probe:
    """A probe. Raises SettingError for an option it does not take, ImportError when it is not in this build."""
    options = {option: _value(option, text) for option, text in told.options}
    try:
        probe = _kind(name)(root, node, **options) if name in PROBES else make_site_probe(name, root, node, options)
    except (TypeError, ValueError) as fault:
        if not options:
            raise
        raise SettingError("[probe {}] ({}): {}".format(name, ", ".join(sorted(options)), fault)) from None
    if told.period_s is not None:
        probe.period_s = told.period_s
    if told.timeout_s is not None:
        probe.timeout_s = told.timeout_s
    return probe


def _kind(name: str) -> Type[Probe]:
    module, _, attribute = PROBES[name].partition(":")
    found = import_module(module)
    if not hasattr(found, attribute):
        raise ImportError("{} has no {}".format(module, attribute))
    kind: Type[Probe] = getattr(found, attribute)
    return kind


def _value(option: str, text: str) -> Any:
    if option in _LISTS:
        return tuple(text.split())
    return _TRUTH.get(text.lower(), text)


def make_named_probes(
    wanted: Sequence[str], root: str, node: str, told: Sequence[Tuple[str, ProbeSettings]]
) -> List[Tuple[str, Probe]]:
    """The probes wanted, each by its name; those not in this build are left out. Raises SettingError."""
    sections: Dict[str, ProbeSettings] = {}
    for said, settings in told:
        name = said.replace("-", "_")
        if name not in PROBES and FILE not in dict(settings.options) and find_site_probe(name) is None:
            raise SettingError("[probe {}]: no such probe; available: {}".format(said, ", ".join(sorted(PROBES))))
        sections[name] = settings
    made = []
    for name in expand_probe_names(wanted, [name for name in sections if name not in PROBES]):
        try:
            made.append((name, make_named_probe(name, root, node, sections.get(name, ProbeSettings()))))
        except ImportError:
            continue
    return made
