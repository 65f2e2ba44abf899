"""Find slow phases by comparing each with its own history: how much time it lost, and how sure that is.

A phase is compared with the others of its categories, from the most general rung of the ladder to the most specific
(`history.category`). On each rung a mixture is fitted to the logarithms of their rates: heavy-tailed noise around a
centre, and a few slow rates exponentially below it, so that abnormal runs do not pull the centre down. The result of a
rung is the prior of the next. This is empirical Bayes: the distance between categories, their width and the share of
slow runs are estimated from all of them, so one earlier run already counts, and with fifty the prior hardly matters.
Not here: the loop itself (`mixture_kernel`), who was to blame (`analysis.interference`), wording (`job_findings`).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairlead.explain.analysis.anomalies.detector_output import PhaseJudgement
from fairlead.explain.analysis.anomalies.phase_arrays import PhaseFigures, extract_phase_arrays
from fairlead.explain.analysis.anomalies.priors import estimate_priors
from fairlead.explain.analysis.history.category import LADDER, NONE, compute_categories
from fairlead.explain.analysis.table_columns import combine_column_codes, read_code_column, read_integer_column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
JUDGING = 5
"""The last rung that can judge; the one after it, of other people's programs, only lends strength, but for
`strangers`."""
_CHUNK = 20_000


@dataclass(frozen=True)
class ExpectedLimits:
    """When a phase is abnormal. `lost_share`: it took so much longer than expected, as a share of what was expected;
    `probability`: so sure it must be; `least_lost_s`: less is never told. `wide_octaves`: volumes so many doublings
    apart count 0.6 of one alike. `strangers`: a phase without others of its user or program is judged by other people's
    phases alike."""

    lost_share: float = 0.5
    probability: float = 0.5
    least_lost_s: float = 1.0
    wide_octaves: float = 2.0
    strangers: bool = False


CANDIDATES = ExpectedLimits(lost_share=0.35, probability=0.3, least_lost_s=0.7, strangers=True)
"""What attribution is asked about: whoever may have lost half of the time a phase takes. A run that is slow by chance
looks the same by its rate; evidence of congestion tells them apart."""


def judge_by_expectation(
    phases: pa.Table, history: pa.Table, limits: ExpectedLimits | None = None, *, batch: bool = False
) -> PhaseJudgement:
    """Judge each row of `phases` (schema PHASE) against `history` (PHASE).

    Rows of the same job are never compared. Rows of `history` that began when a phase did or later count only with
    `batch`. A phase without others of its user or program is not judged (NaN; but `strangers`), and neither is one
    without a rate.
    `confidence` is the probability that it took longer than expected by `lost_share` or more.
    """
    limits = limits or ExpectedLimits()
    result = PhaseJudgement.build_unknown(phases.num_rows)
    compared = _find_comparable(phases, history)
    if compared is None:
        return result
    mine, others = compared.mine, compared.others
    found = estimate_priors(others.rate, compared.theirs, others.job, _blocks(mine, others, batch))
    low, high = compared.find_ranges()
    with np.errstate(invalid="ignore", divide="ignore"):
        amount, volume, request = np.log2(mine.amount), np.log2(others.amount), np.log2(others.request)
        still, my_request = others.silent_s / others.active_s, np.log2(mine.request)
    took = np.full(phases.num_rows, np.nan)
    runs, rung = np.zeros(phases.num_rows, np.int64), np.full(phases.num_rows, -1, np.int64)
    confidence, expected = np.full(phases.num_rows, np.nan), np.full(phases.num_rows, np.nan)
    least = float(np.log2(1.0 + limits.lost_share))

    def part(first: int) -> None:
        from fairlead.explain.analysis.anomalies.mixture_kernel import run_mixture_kernel

        run_mixture_kernel(
            first,
            min(first + _CHUNK, phases.num_rows),
            low,
            high,
            compared.order,
            others.rate,
            volume,
            request,
            still,
            others.start_ns,
            others.job,
            amount,
            mine.active_s,
            mine.silent_s,
            amount,
            my_request,
            mine.start_ns,
            mine.job,
            found.middle,
            found.block,
            found.spread,
            found.between,
            found.slowed,
            found.mean,
            batch,
            JUDGING + limits.strangers,
            least,
            limits.wide_octaves,
            confidence,
            expected,
            took,
            runs,
            rung,
        )

    starts = range(0, phases.num_rows, _CHUNK)
    if len(starts) == 1:
        part(0)
    else:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            list(threads.map(part, starts))
    lost = np.maximum(took - expected, 0.0)
    with np.errstate(invalid="ignore"):
        abnormal = (
            (confidence >= limits.probability) & (lost >= limits.lost_share * expected) & (lost >= limits.least_lost_s)
        )
    return PhaseJudgement(abnormal, confidence, expected, lost, runs, rung.astype(np.int8))


@dataclass(frozen=True)
class ComparablePhases:
    """Judged rows and those they may be compared with. `theirs` (rungs, H) and `my` (rungs, P) are categories; `order`
    (rungs, H): rows of the history by category, in time order in each."""

    mine: PhaseFigures
    others: PhaseFigures
    my: I64
    theirs: I64
    order: I64

    def find_ranges(self) -> tuple[I64, I64]:
        """Where in `order` the category of each judged row begins and ends, (rungs, P); NONE where it has none."""
        low, high = np.full(self.my.shape, NONE, np.int64), np.full(self.my.shape, NONE, np.int64)
        for k in range(len(LADDER)):
            ordered = self.theirs[k][self.order[k]]
            known = self.my[k] != NONE
            low[k, known] = np.searchsorted(ordered, self.my[k][known], "left")
            high[k, known] = np.searchsorted(ordered, self.my[k][known], "right")
        return low, high


def _find_comparable(phases: pa.Table, history: pa.Table) -> ComparablePhases | None:
    """Code both tables alike; None where either has no usable row. Of history rows that occur more than once (the same
    phase of the same job) the newest counts; those without a rate are left out."""
    if not phases.num_rows or not history.num_rows:
        return None
    same = phases is history  # a whole history judged by itself is not held twice
    both = phases if same else pa.concat_tables([phases, history]).unify_dictionaries()
    figures, codes = extract_phase_arrays(both), compute_categories(both)
    asked = np.arange(phases.num_rows)
    given = asked if same else np.arange(history.num_rows) + phases.num_rows
    rate = figures.rate[given]
    phase = combine_column_codes(
        [figures.job[given], read_code_column(history, "kind"), read_integer_column(history, "number", -1)]
    )
    latest = np.lexsort((rate, read_integer_column(history, "made_ns"), phase))
    last = np.append(phase[latest][1:] != phase[latest][:-1], True)
    kept = latest[last & np.isfinite(rate[latest])]
    if not len(kept):
        return None
    # In time order, whatever order rows came in: the first so many are the history of an earlier time.
    kept = kept[np.lexsort((rate[kept], figures.start_ns[given][kept]))]
    theirs = np.ascontiguousarray(codes[:, given[kept]])
    order = np.stack([np.argsort(row, kind="stable") for row in theirs])
    return ComparablePhases(
        figures.select(asked), figures.select(given[kept]), np.ascontiguousarray(codes[:, asked]), theirs, order
    )


def _blocks(mine: PhaseFigures, others: PhaseFigures, batch: bool) -> I64:
    """How many rows of the history each phase takes its priors from: the largest power of two that lies before it."""
    if batch:
        return np.full(len(mine.start_ns), len(others.start_ns), np.int64)
    before = np.searchsorted(others.start_ns, mine.start_ns, "left")
    return np.where(before > 0, 1 << np.floor(np.log2(np.maximum(before, 1))).astype(np.int64), 0)
