"""job_stats of OSTs and MDTs: what each job did at each target. Not here: the reading of the text (`job_stats`)."""

from array import array
from typing import Any, Dict, FrozenSet, Iterable, Optional, Sequence, Set, Tuple

from fairlead.see.probes.base import Key, ProbeResult
from fairlead.see.probes.lustre.job_ids import JobIds
from fairlead.see.probes.lustre.job_stats import Memory, Shape, scan_job_stats
from fairlead.see.probes.lustre.lustre_probe import TARGET_ROW, TARGET_TIMES, LustreProbe, Tally
from fairlead.see.probes.lustre.names import MDT_OPS, MDT_UPKEEP, OST_METADATA, OST_OTHER
from fairlead.see.probes.lustre.parameters import Parameter, Place
from fairlead.see.probes.lustre.stats_lines import add_stats_counters


def _names(words: Iterable[str]) -> FrozenSet[bytes]:
    return frozenset(word.encode() for word in words)


OST_SHAPE = Shape(
    dict.fromkeys(_names(OST_METADATA), 4),
    _names(OST_OTHER),
    {b"read": 0, b"write": 1, **dict.fromkeys(_names(OST_METADATA), 2)},
)
"""Values are those of TARGET_ROW, then those of TARGET_TIMES."""
MDT_SHAPE = Shape(
    {name.encode(): 4 + place for place, name in enumerate(MDT_OPS)},
    _names(MDT_UPKEEP | {"read", "write"}),
    {b"read": 0, b"write": 1, **{name.encode(): 2 + place for place, name in enumerate(MDT_OPS)}},
    other=4 + MDT_OPS.index("other"),
)
"""Values are the first four of TARGET_ROW, those of MDT_OPS; times of reads and writes, of those of MDT_OPS."""
_OPS_AT, _TIMES_AT = 4, 4 + len(MDT_OPS)


class _JobsProbe(LustreProbe):
    """What both have: options, and jobs of which several entries are one.

    `jobid_name` is the `jobid_name` of the clients where the servers' own (the default) is not theirs.
    """

    period_s = 5.0
    shape = OST_SHAPE

    def __init__(self, *arguments: Any, jobid_name: Optional[str] = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._jobid_name = jobid_name
        self._memories: Dict[str, Memory] = {}
        self._parts: "Dict[str, _Parts]" = {}
        self.timed = False
        """Whether the texts tell how long operations took."""

    def gather(self, place: Place, tally: Tally) -> "Optional[Tuple[Dict[Key, array[int]], Dict[Key, Optional[int]]]]":
        """Rows and epochs by (target, job); None when there is no job_stats here."""
        texts = place.find(self.wants[0])
        if not texts:
            return None
        name = self._jobid_name if self._jobid_name is not None else place.read_word("jobid_name")
        ids = JobIds(name)
        rows: "Dict[Key, array[int]]" = {}
        epochs: Dict[Key, Optional[int]] = {}
        for one in texts:
            self._gather_one(place, one, ids, tally, rows, epochs)
        if self.timed:
            for row in rows.values():
                row.extend([0] * (self.shape.timed_width - len(row)))
        return rows, epochs

    def _gather_one(
        self,
        place: Place,
        one: Parameter,
        ids: JobIds,
        tally: Tally,
        rows: "Dict[Key, array[int]]",
        epochs: Dict[Key, Optional[int]],
    ) -> None:
        target = one.stars[0]
        parts = self._parts.setdefault(target, _Parts()) if ids.parted else None

        def take(entry: bytes, start_ns: Optional[int], values: "array[int]") -> None:
            job = ids.find_job(entry)
            if parts is not None:
                parts.take(entry, job, start_ns, values)
                return
            key = (target, job)
            rows[key] = values
            epochs[key] = start_ns

        read = scan_job_stats(place.read_chunks(one), self.shape, take, self._memories.setdefault(target, Memory()))
        tally.add(read.unknown, read.example)
        self.timed = self.timed or read.timed
        if parts is not None:
            for job, values in parts.totals().items():
                rows[target, job] = values


class _Parts:
    """Entries of which several are of one job (`%j:%u:%H`), added up so that a job's sum never shrinks: an entry that
    Lustre dropped, or began anew, keeps what it had counted in the sum."""

    def __init__(self) -> None:
        self._last: "Dict[bytes, Tuple[Optional[int], array[int]]]" = {}
        self._now: "Dict[bytes, Tuple[Optional[int], array[int]]]" = {}
        self._sums: "Dict[Optional[str], array[int]]" = {}
        self._seen: Set[Optional[str]] = set()

    def take(self, entry: bytes, job: Optional[str], start_ns: Optional[int], values: "array[int]") -> None:
        """One entry of this look."""
        last = self._last.get(entry)
        self._now[entry] = (start_ns, values)
        self._seen.add(job)
        new: Sequence[int] = values
        if last is not None and last[0] == start_ns and all(b >= a for a, b in zip(last[1], values)):
            new = [b - a for a, b in zip(last[1], values)]
        there = self._sums.get(job)
        self._sums[job] = array("q", new) if there is None else array("q", map(add_stats_counters, zip(there, new)))

    def totals(self) -> "Dict[Optional[str], array[int]]":
        """Sums of the jobs of this look, and an end to it."""
        self._last, self._now = self._now, {}
        self._sums = {job: row for job, row in self._sums.items() if job in self._seen}
        self._seen = set()
        return self._sums


class OstJobsProbe(_JobsProbe):
    """Each job at each OST."""

    name = "lustre_ost_jobs"
    kind = "OSS"
    wants = ("obdfilter/*/job_stats", "jobid_name")

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Jobs of every OST; one that has counted nothing is left out."""
        tally = Tally()
        found = self.gather(place, tally)
        if found is None:
            return None
        rows: Dict[Key, Sequence[Any]] = dict(found[0])
        counters = (*TARGET_ROW, *TARGET_TIMES) if self.timed else TARGET_ROW
        keys = ("target", "job_id")
        return ProbeResult(
            [self.build_reading("target", keys, counters, rows, "job_stats", tally, found[1], born_at_zero=True)]
        )


class MdtJobsProbe(_JobsProbe):
    """Each job at each MDT: operations by name, and data of files that begin there."""

    name = "lustre_mdt_jobs"
    kind = "MDS"
    wants = ("mdt/*/job_stats", "jobid_name")
    shape = MDT_SHAPE

    def collect(self, place: Place, now_ns: int) -> Optional[ProbeResult]:  # noqa: ARG002
        """Jobs of every MDT; one that has counted nothing is left out."""
        tally = Tally()
        found = self.gather(place, tally)
        if found is None:
            return None
        ops: Dict[Key, Sequence[Any]] = {}
        moved: Dict[Key, Sequence[Any]] = {}
        rows, epochs = found
        for key in list(rows):
            values = rows.pop(key)  # the row as read is not needed beside the one that is kept
            data = values[:_OPS_AT] + values[_TIMES_AT : _TIMES_AT + 2]
            if any(data[:_OPS_AT]):
                moved[key] = data
            ops[key] = values[_OPS_AT:_TIMES_AT] + values[_TIMES_AT + 2 :]
        keys = ("target", "job_id")
        counters: Tuple[str, ...] = MDT_OPS
        data_counters: Tuple[str, ...] = TARGET_ROW[:4]
        spread: Tuple[str, ...] = ("op", "count")
        if self.timed:
            counters, spread = MDT_OPS * 2, ("op", "count", "busy_ns")
            data_counters = (*TARGET_ROW[:4], *TARGET_TIMES[:2])
        made = [
            self.build_reading(
                "metadata", keys, counters, ops, "job_stats", tally, epochs, spread=spread, born_at_zero=True
            )
        ]
        if moved:
            made.append(
                self.build_reading("target", keys, data_counters, moved, "job_stats", None, epochs, born_at_zero=True)
            )
        return ProbeResult(made)
