"""Probes of a site: a file named in the settings, or an entry point `fairlead.probes`. Not here: built-in ones.

What such a probe does wrong shows as its own health and ends nothing else. Only a file that nobody else can change is
run, and nothing is looked for in the working directory.
"""

import os
import stat
from importlib import import_module
from typing import Any, Dict, List, Optional, Type

from fairlead.see.agent.row_buffers import VERSIONS
from fairlead.see.agent.settings import SettingError
from fairlead.see.probes.base import Probe, ProbeResult, Reading

GROUP = "fairlead.probes"
FILE = "file"
"""The option of a `[probe NAME]` section that names the file."""


class SiteProbe(Probe):
    """A site's probe behind checks of what it returns. `inner` None: it could not be made, and `fault` says why."""

    def __init__(self, name: str, where: str, inner: Optional[Probe], fault: str = "") -> None:
        Probe.__init__(self)
        self.name = name
        self.where = where
        self.inner = inner
        self.fault = fault
        if inner is not None:
            self.period_s, self.timeout_s = float(inner.period_s), float(inner.timeout_s)

    def read(self, now_ns: int) -> ProbeResult:
        """What the probe found. Raises AbsentError, OSError; TypeError for what no table can hold."""
        if self.inner is None:
            raise OSError("error in the probe {!r} ({}): {}".format(self.name, self.where, self.fault))
        found = self.inner.read(now_ns)
        if not isinstance(found, ProbeResult):
            raise TypeError("read() returned {}, not ProbeResult ({})".format(type(found).__name__, self.where))
        for reading in found.readings:
            _check_reading(reading)
        return found


def _check_reading(reading: Reading) -> None:
    """Raises TypeError when the agent could not turn a reading into rows."""
    if not isinstance(reading, Reading):
        raise TypeError("{} is not a Reading".format(type(reading).__name__))
    if reading.table not in VERSIONS:
        raise TypeError("unknown table {!r}; available: {}".format(reading.table, ", ".join(sorted(VERSIONS))))
    width = len(reading.counters) + len(reading.gauges)
    for key, values in reading.rows.items():
        if not isinstance(key, tuple) or len(key) != len(reading.keys) or len(values) != width:
            raise TypeError("a row does not fit: key {!r}, {} values for {} columns".format(key, len(values), width))


def make_site_probe(name: str, root: str, node: str, options: Dict[str, Any]) -> SiteProbe:
    """The probe of a section's `file`, or of the entry point `name`. One that is broken is made all the same, and fails
    at each look. Raises SettingError for a file that must not be run."""
    wanted = dict(options)
    path = wanted.pop(FILE, None)
    if path is not None:
        _check_file(name, path)
    where = path or "entry point {} of {}".format(name, GROUP)
    try:
        kind = _load_file(path) if path is not None else find_site_probe(name).load()
        return SiteProbe(name, where, kind(root, node, **wanted))
    except Exception as defect:  # noqa: BLE001  (a site's file may raise anything; the other probes go on)
        return SiteProbe(name, where, None, "{}: {}".format(type(defect).__name__, defect))


def _check_file(name: str, path: str) -> None:
    """Raises SettingError unless `path` is absolute, and only root or the agent's user can change the file and its
    folder."""
    section = "[probe {}] (file): {}".format(name, path)
    if not os.path.isabs(path):
        raise SettingError("{}: give an absolute path".format(section))
    try:
        looks = [os.stat(path), os.stat(os.path.dirname(path))]
    except OSError as fault:
        raise SettingError("{}: {}".format(section, fault.strerror or fault)) from None
    if not stat.S_ISREG(looks[0].st_mode):
        raise SettingError("{}: not a regular file".format(section))
    for look in looks:
        if look.st_uid not in (0, os.geteuid()) or (look.st_mode & 0o022 and not look.st_mode & stat.S_ISVTX):
            raise SettingError(
                "{}: other users can change it or its directory; chown root and chmod go-w".format(section)
            )


def _load_file(path: str) -> Type[Probe]:
    """The one subclass of Probe that a Python file defines. Raises whatever the file raises; TypeError."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("fairlead_site_" + os.path.basename(path).partition(".")[0], path)
    if spec is None or spec.loader is None:
        raise TypeError("not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds: List[Type[Probe]] = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Probe) and kind.__module__ == module.__name__
    ]
    if len(kinds) != 1:
        raise TypeError("it defines {} subclasses of Probe, not one".format(len(kinds)))
    return kinds[0]


def find_site_probe(name: str) -> Any:
    """The entry point of an installed package; None when there is none, or this Python is older than 3.8."""
    try:
        points: Any = import_module("importlib.metadata").entry_points()
    except ImportError:
        return None
    points = points.select(group=GROUP) if hasattr(points, "select") else points.get(GROUP, ())
    return next((point for point in points if point.name == name), None)
