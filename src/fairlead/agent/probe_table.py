"""The probes by name, and how they are made when they are wanted. Not here: what they read (`fairlead.probes`)."""

from importlib import import_module
from typing import Dict, Sequence, Tuple

from fairlead.agent.settings import ProbeSettings, SettingError
from fairlead.probes.base import Probe

PROBES: Dict[str, str] = {}
"""Name → module:class. `auto` takes all of them; those that find nothing cost one look every five minutes."""


def names_of(wanted: Sequence[str]) -> "list[str]":
    """The probes meant by a list of names. Raises SettingError for one that is not known."""
    found = []
    for name in wanted:
        if name != "auto" and name not in PROBES:
            raise SettingError("no probe {!r}; there are {}".format(name, ", ".join(sorted(PROBES))))
        found += list(PROBES) if name == "auto" else [name]
    return list(dict.fromkeys(found))


def make(name: str, root: str, node: str, told: ProbeSettings) -> Probe:
    """A probe. Raises SettingError for an option it does not take, ImportError when it is not in this build."""
    module, _, attribute = PROBES[name].partition(":")
    made = getattr(import_module(module), attribute)
    options: Dict[str, str] = dict(told.options)
    try:
        probe: Probe = made(root, node, **options)
    except TypeError:
        if not options:
            raise
        raise SettingError("[probe {}] takes no such options: {}".format(name, ", ".join(sorted(options)))) from None
    if told.period_s is not None:
        probe.period_s = told.period_s
    if told.timeout_s is not None:
        probe.timeout_s = told.timeout_s
    return probe


def make_all(
    wanted: Sequence[str], root: str, node: str, told: Sequence[Tuple[str, ProbeSettings]]
) -> "list[tuple[str, Probe]]":
    """The probes wanted, each by its name; those not in this build are left out. Raises SettingError."""
    sections = dict(told)
    for name in sections:
        if name not in PROBES:
            raise SettingError("[probe {}]: no such probe; there are {}".format(name, ", ".join(sorted(PROBES))))
    made = []
    for name in names_of(wanted):
        try:
            made.append((name, make(name, root, node, sections.get(name, ProbeSettings()))))
        except ImportError:
            continue
    return made
