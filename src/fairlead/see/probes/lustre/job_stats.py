"""job_stats texts of any size, read piece by piece: each job's counters as a short row. Not here: files, job ids.

A text of ten thousand jobs is twenty megabytes, of which few numbers are wanted. All jobs of one text have the same
lines in the same order, so one regex is made of the first job's lines and matches whole jobs after; a job that does not
fit it is read line by line.
"""

import re
from array import array
from operator import itemgetter
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional, Pattern, Sequence, Tuple

from fairlead.see.probes.lustre.stats_lines import (
    MOST,
    USEC,
    add_stats_counters,
    format_stats_line,
    parse_stats_epoch_ns,
)

_JOB = re.compile(rb"[ \t]*- job_id[ \t]*:([^\n]*)\Z")
_TIME = re.compile(rb"[ \t]*(snapshot_time|start_time|elapsed_time)[ \t]*:[ \t]*(\d+)(?:\.(\d+))?[^\n]*\Z")
_OP = re.compile(
    rb"([ \t]*)([^\s:{}]+)[ \t]*:[ \t]*\{[ \t]*samples:[ \t]*(\d+)(?:,[ \t]*unit:[ \t]*([^\s,}]+))?"
    rb"(,[ \t]*min:[ \t]*\d+,[ \t]*max:[ \t]*\d+,[ \t]*sum:[ \t]*(\d+))?(?:,[^\n]*)?[ \t]*\}[ \t\r]*\Z"
)
_LONGEST_BLOCK = 1 << 20
"""A job's text that is longer is no job's text: it is read for what it holds, in pieces."""
_LONGEST_LINE = 4096
_MOST_LAYOUTS = 8
_HEAD = (
    rb"[ \t]*- job_id[ \t]*:([^\n]*)\n"
    rb"(?:[ \t]*snapshot_time[ \t]*:[^\n]*\n)?"
    rb"(?:[ \t]*start_time[ \t]*:[ \t]*(\d+)(?:\.(\d+))?[^\n]*\n)?"
    rb"(?:[ \t]*elapsed_time[ \t]*:[^\n]*\n)?"
)

Take = Callable[[bytes, "Optional[int]", "array[int]"], None]
"""Called for each job that counted anything: its id as written, when its counting began (epoch ns), its values."""


class Shape:
    """Which numbers of a job are wanted. Values 0 and 1 are samples, 2 and 3 sums of `read_bytes` and `write_bytes`;
    from 4 on, those of `places`: an operation's samples are added to the value at its place. From `width` on, the same
    of `times`: the operation's time, ns, is added at its place there; they are there only where the text is timed."""

    def __init__(
        self,
        places: Dict[bytes, int],
        passed_over: FrozenSet[bytes],
        times: Dict[bytes, int],
        other: Optional[int] = None,
    ) -> None:
        self.places = places
        self.passed_over = passed_over
        self.times = times
        self.other = other
        self.width = 1 + max([3, *places.values(), other if other is not None else 0])
        self.timed_width = self.width + 1 + max(times.values())


class Scan:
    """What was not understood in a text, once it is read: lines, the first of them; and how many jobs were read by the
    regex, line by line, and not again because nothing of them had changed."""

    def __init__(self) -> None:
        self.unknown = 0
        self.example = ""
        self.fast = 0
        self.slow = 0
        self.same = 0
        self.timed = False
        """Whether operations were counted with their times (2.13 and later)."""

    def count_strange_line(self, line: bytes) -> None:
        """Count a line."""
        self.unknown += 1
        self.example = self.example or format_stats_line(line)


class Memory:
    """The jobs of the look before, by the hash of their lines. Lustre lists a job for ten minutes after its last
    request, with the same lines: they are not read again. The first look fills nothing, so that it is not slower."""

    def __init__(self) -> None:
        self.last: "Dict[int, Optional[Tuple[bytes, Optional[int], array[int]]]]" = {}
        self.now: "Dict[int, Optional[Tuple[bytes, Optional[int], array[int]]]]" = {}
        self.looks = 0
        self.timed = False

    def begin(self) -> None:
        """Before a look; what one that failed left is forgotten."""
        self.now = {}

    def end(self) -> None:
        """After a look."""
        self.last, self.now = self.now, {}
        self.looks += 1


def scan_job_stats(chunks: Iterable[bytes], shape: Shape, take: Take, memory: Optional[Memory] = None) -> Scan:
    """Read a text given in pieces of any size, and hand every job over. Raises what reading the pieces raises."""
    if memory is not None:
        memory.begin()
    reader = _Reader(shape, take, memory if memory is not None and memory.looks else None)
    kept = b""
    for chunk in chunks:
        text = kept + chunk
        cut = text.rfind(b"\n- job_id", 0) + 1
        if not cut and len(text) > _LONGEST_BLOCK:
            cut = text.rfind(b"\n") + 1 or len(text)
        reader.blocks(text, cut)
        kept = text[cut:]
    reader.blocks(kept, len(kept))
    if memory is not None:
        reader.scan.timed = memory.timed = memory.timed or reader.scan.timed
        memory.end()
    return reader.scan


class _Reader:
    def __init__(self, shape: Shape, take: Take, memory: Optional[Memory]) -> None:
        self.shape = shape
        self.take = take
        self.memory = memory
        self.scan = Scan()
        self._layout: "Optional[_Layout]" = None
        self._made = 0

    def blocks(self, text: bytes, end: int) -> None:
        """Read whole jobs, those before `end`."""
        at = 0
        scan, take, memory = self.scan, self.take, self.memory
        after = seen = 0
        while at < end:
            if memory is not None:
                after = text.find(b"\n- job_id", at, end) + 1 or end
                seen = hash(text[at:after])
                if seen in memory.last:
                    known = memory.now[seen] = memory.last[seen]
                    scan.same += 1
                    at = after
                    if known is not None:
                        take(*known)
                    continue
            layout = self._layout
            match = layout.pattern.match(text, at, end) if layout is not None else None
            if match is not None and match.end() != end and not text.startswith(b"- job_id", match.end()):
                match = None  # this job has more lines than those the layout was learned of
            if match is not None and layout is not None:
                at = match.end()
                scan.fast += 1
                job = layout.job(match.groups())
                if memory is not None and at == after:
                    memory.now[seen] = job
                if job is not None:
                    take(*job)
                continue
            after = text.find(b"\n- job_id", at, end) + 1 or end
            self._lines(text[at:after])
            at = after

    def _lines(self, block: bytes) -> None:
        """Read one job's lines one by one, and learn their order."""
        lines = block.split(b"\n")
        job = start = None
        values = array("q", bytes(8 * self.shape.timed_width))
        ops: List[_Op] = []
        timed = False
        strange = self.scan.unknown
        for line in lines:
            if len(line) > _LONGEST_LINE:
                if line.strip():
                    self.scan.count_strange_line(line)
                continue
            op = _OP.match(line)
            if op is not None and job is not None:
                _indent, name, samples, unit, has_sum, total = op.groups()
                in_us = has_sum is not None and unit in USEC and name in self.shape.times
                ops.append((name, has_sum is not None, in_us))
                timed = timed or in_us
                self._count(values, name, samples, total, line)
                if in_us:
                    place = self.shape.width + self.shape.times[name]
                    values[place] = min(MOST, values[place] + 1000 * int(total[:40]))
                continue
            time = _TIME.match(line)
            if time is not None and job is not None:
                if time.group(1) == b"start_time":
                    start = parse_stats_epoch_ns(time.group(2), time.group(3) or b"")
                continue
            named = _JOB.match(line)
            if named is not None and job is None:
                job = named.group(1).strip()
            elif line.strip() not in (b"", b"job_stats:"):
                self.scan.count_strange_line(line)
        if job is None:
            return
        self.scan.slow += 1
        self.scan.timed = self.scan.timed or timed
        if not timed:
            del values[self.shape.width :]
        if any(values):
            self.take(job, start, values)
        if ops and strange == self.scan.unknown and self._made < _MOST_LAYOUTS:
            self._made += 1
            self._layout = _Layout(ops, self.shape)

    def _count(self, values: "array[int]", name: bytes, samples: bytes, total: Optional[bytes], line: bytes) -> None:
        count = min(MOST, int(samples[:40]))
        if name in _DATA:
            place = _DATA[name]
            values[place] = min(MOST, values[place] + count)
            values[place + 2] = min(MOST, values[place + 2] + int(total[:40] if total else 0))
            return
        at = self.shape.places.get(name)
        if at is None and name not in self.shape.passed_over:
            at = self.shape.other
            if count:
                self.scan.count_strange_line(line)
        if at is not None:
            values[at] = min(MOST, values[at] + count)


_DATA = {b"read_bytes": 0, b"write_bytes": 1}
_Op = Tuple[bytes, bool, bool]
"""Name, whether its line has a sum, whether that is a time that is wanted."""


class _Layout:
    """The lines of one job as a regex, and how its groups become values."""

    def __init__(self, ops: "Sequence[_Op]", shape: Shape) -> None:
        text = _HEAD
        order: List[int] = []
        for name, has_sum, in_us in ops:
            wanted = name in _DATA or name in shape.places
            # What is passed over is passed over whole; an operation not known must be seen: here it may only be zero.
            number = rb"(\d{1,18})" if wanted else (rb"\d+" if name in shape.passed_over else rb"0")
            text += rb"[ \t]*" + re.escape(name) + rb"[ \t]*:[ \t]*\{ *samples: *" + number
            if in_us:
                text += rb", *unit: *usecs?, *min: *\d+, *max: *\d+, *sum: *(\d{1,15})"
                order += [shape.places[name]] if wanted else []
                order.append(shape.width + shape.times[name])
            elif name in _DATA and has_sum:
                text += rb",[^,\n]*, *min: *\d+, *max: *\d+, *sum: *(\d{1,18})"
                order += [_DATA[name], _DATA[name] + 2]
            elif wanted:
                order.append(_DATA[name] if name in _DATA else shape.places[name])
            text += rb"[, }][^\n]*\n"
        self.pattern: "Pattern[bytes]" = re.compile(text)
        # Most places have one number or none; those of one place that has several are added.
        width = shape.timed_width if any(in_us for _, _, in_us in ops) else shape.width
        of_place: List[List[int]] = [[at for at, to in enumerate(order) if to == place] for place in range(width)]
        self._untimed = shape.width
        self._pick = itemgetter(*[numbers[0] if numbers else len(order) for numbers in of_place])
        self._more = [(place, itemgetter(*numbers)) for place, numbers in enumerate(of_place) if len(numbers) > 1]

    def job(self, groups: Sequence[bytes]) -> "Optional[Tuple[bytes, Optional[int], array[int]]]":
        """What `Take` is given of one job, or None when it has counted nothing."""
        numbers = [*map(int, groups[3:]), 0]
        if not any(numbers):
            return None
        row = array("q", self._pick(numbers))
        for place, several in self._more:
            row[place] = add_stats_counters(several(numbers))
        for place in range(self._untimed, len(row)):
            row[place] *= 1000
        start = parse_stats_epoch_ns(groups[1], groups[2] or b"") if groups[1] else None
        return groups[0].strip(), start, row
