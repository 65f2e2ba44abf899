"""What a Darshan log does not hold, in words: one `Missing` per gap, with its cause and what would close it.

Kinds: partial_module, module_not_read, module_version, truncated, damaged, clock, name_missing, not_recorded,
known_defect. `what` begins with the module's name where a module is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.core.model.missing import Missing
from fairlead.see.sources.darshan.container import JobRecord, ModuleInfo
from fairlead.see.sources.darshan.dxt import INTERFACES, has_dxt_offsets
from fairlead.see.sources.darshan.records import Tally
from fairlead.see.sources.darshan.regions import DamagedRegionError

_REFETCH = "fetch the log again from where it was written"
_MORE_TRACE = (
    "raise Darshan's memory per process and run again: DARSHAN_MODMEM=<MiB> in the environment (MODMEM in its "
    "configuration file), or trace fewer files with NAME_EXCLUDE"
)
_MORE_RECORDS = (
    "raise Darshan's limits and run again: DARSHAN_MODMEM=<MiB> in the environment (MODMEM in its configuration "
    "file) and MAX_RECORDS <n> {module}, or leave files out with NAME_EXCLUDE"
)
_NOT_READ = {
    "APMPI": "the MPI calls (AutoPerf)",
    "APXC": "the Cray network counters (AutoPerf)",
    "BG/Q": "the Blue Gene/Q partition",
    "MDHIM": "the MDHIM key-value store",
    "DFS": "DAOS file system operations",
    "DAOS": "DAOS object operations",
}


def _count(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else word + 's'}"


class Gaps:
    """Makes the `Missing` of one log."""

    def __init__(self, where: str) -> None:
        self._where = where

    def _missing(self, kind: str, what: str, why: str, remedy: str | None = None) -> Missing:
        return Missing(kind=kind, what=what, why=why, remedy=remedy, where=self._where)

    def list_job_gaps(self, version: tuple[int, int], record: JobRecord) -> Iterator[Missing]:
        """What is doubtful about the whole log."""
        if record.processes is None:
            why = "the log has no usable one; the ranks seen are used"
            yield self._missing("damaged", "number of processes", why, _REFETCH)
        if record.start_ns is None:
            yield self._missing("clock", "start of the job", "the log has no usable time; times count from 1970")
        if record.end_ns is None:
            yield self._missing("clock", "end of the job", "the log has no usable time")
        elif record.start_ns is not None and record.end_ns < record.start_ns:
            yield self._missing("clock", "run time", "the job ends before it starts: its clock ran backwards")
        if version == (3, 20):
            yield self._missing(
                "known_defect",
                "exact counters",
                "Darshan 3.2.0 wrote wrong access sizes and possibly other counters",
                "record again with Darshan 3.2.1 or newer",
            )

    def describe_unread_module(self, module: ModuleInfo) -> Missing:
        """A module fairlead does not decode."""
        about = _NOT_READ.get(module.name)
        why = f"{module.compressed_bytes:,} bytes are in the log, but fairlead does not read this module"
        return self._missing("module_not_read", f"{module.name}: {about}" if about else module.name, why)

    def build_version_gap(self, module: ModuleInfo) -> Missing:
        """A module whose records are of a version fairlead does not know."""
        why = f"version {module.version} of its records is not known to this fairlead"
        return self._missing("module_version", module.name, why, "update fairlead")

    def describe_damaged_names(self, damage: DamagedRegionError, kept: int) -> Missing:
        """The name region ends early."""
        why = f"the list of names {damage}; {_count(kept, 'name')} before that kept"
        return self._missing("truncated", "file names", why, _REFETCH)

    def build_nameless_gap(self, count: int) -> Missing:
        """Records whose name is not in the log."""
        why = f"{_count(count, 'record id')} without a name in the log, shown as darshan:<id>"
        return self._missing("name_missing", "file names", why)

    def list_module_gaps(
        self, module: ModuleInfo, tally: Tally, damage: DamagedRegionError | None, unit: str
    ) -> Iterator[Missing]:
        """What is wrong with the records of a module that was decoded; `unit` is what it counts."""
        name, trace = module.name, module.name in INTERFACES
        if module.partial:
            yield self._missing(
                "partial_module",
                name,
                f"{name} ran out of memory: {_count(tally.kept, unit)} kept, later ones were not recorded",
                _MORE_TRACE if trace else _MORE_RECORDS.format(module=name),
            )
        if damage is not None:
            yield self._missing(
                "truncated", name, f"its data {damage}; {_count(tally.kept, unit)} before that kept", _REFETCH
            )
        if tally.impossible_ranks:
            why = f"{_count(tally.impossible_ranks, 'record')} of an impossible rank left out"
            yield self._missing("damaged", name, why, _REFETCH)
        if tally.impossible_values:
            why = f"{_count(tally.impossible_values, 'record')} with impossible sizes or counts left out"
            yield self._missing("damaged", name, why, _REFETCH)
        if tally.unplaced_times:
            yield self._missing("clock", f"{name} times", f"{_count(tally.unplaced_times, 'time')} outside any job")
        if tally.backwards:
            why = f"{_count(tally.backwards, 'operation')} ending before the start, counted with zero duration"
            yield self._missing("clock", f"{name} durations", why)
        yield from self._limits(module, tally)

    def _limits(self, module: ModuleInfo, tally: Tally) -> Iterator[Missing]:
        """What early versions of a module could not record."""
        newer = "record with a current Darshan"
        if tally.stream_records:
            why = (
                f"{_count(tally.stream_records, 'record')} with C streams mixed into POSIX counters, as Darshan 3.0 "
                "did, left out: their bytes cannot be told apart"
            )
            yield self._missing("not_recorded", f"{module.name} of files also used as C streams", why, newer)
        if module.name in INTERFACES and not has_dxt_offsets(module.name, module.version):
            why = f"version {module.version} of {module.name} did not record them"
            yield self._missing("not_recorded", f"{module.name} offsets", why, newer)
        if module.name == "MPI-IO" and module.version == 1:
            why = "version 1 of MPI-IO may have recorded a wrong one"
            yield self._missing("not_recorded", "MPI-IO time of the first write", why, newer)
