"""When components and the whole system are looked at: every minute or so, every hour. One object a process.

It remembers when it looked last, what components reached in the days before and how many records there were: what
was found, and up to when, is in the lake. Not here: what is looked at (`run_health_round`, `run_system_round`).
"""

from __future__ import annotations

from typing import Any

from fairlead.core import clock
from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.health.class_peaks import Peak
from fairlead.explain.analysis.system.system_site import SystemSite
from fairlead.explain.diagnosing.component_peaks import read_past_peaks
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.explain.diagnosing.health_round import compute_health_learning_end, run_health_round
from fairlead.explain.diagnosing.looked_time import LateRecords
from fairlead.explain.diagnosing.system_round import run_system_round

SHARE = 0.25
"""Of the time at most so much goes into looking at components: jobs that end must not wait."""


class Rounds:
    """The rounds of one process."""

    def __init__(self, settings: Diagnosis, site: SystemSite) -> None:
        self.settings = settings
        self.site = site
        self._next_health_ns = self._next_system_ns = 0
        self._late = LateRecords()
        self._past: tuple[int, dict[tuple[str, str], Peak]] = (-1, {})

    def look(self, lake: Any, writer: Any, now_ns: int) -> int:
        """Looks at what is due; returns the rows written. Raises LakeError."""
        if not self.settings.on:
            return 0
        written = 0
        if now_ns >= self._next_health_ns:
            begun = clock.monotonic_s()
            past = self._peaks(lake, compute_health_learning_end(now_ns, self.settings))
            changed_ns = self._late.find_changed_time(lake, now_ns)
            written += run_health_round(
                lake, writer, now_ns, self.settings, self.site.peaks, past=past, changed_ns=changed_ns
            )
            rest = max(self.settings.every_s, (clock.monotonic_s() - begun) / SHARE)
            self._next_health_ns = now_ns + int(rest * NS_PER_S)
        if now_ns >= self._next_system_ns:
            begun = clock.monotonic_s()
            looked = run_system_round(lake, writer, now_ns, self.site)
            written += looked.written
            soon = max(self.settings.every_s, (clock.monotonic_s() - begun) / SHARE)
            rest = soon if looked.left else self.settings.system_every_s
            self._next_system_ns = now_ns + int(rest * NS_PER_S)
        return written

    def _peaks(self, lake: Any, before_ns: int) -> dict[tuple[str, str], Peak]:
        """Peaks of the days before, read once an hour."""
        if self._past[0] != before_ns:
            self._past = (before_ns, read_past_peaks(lake, before_ns))
        return self._past[1]
