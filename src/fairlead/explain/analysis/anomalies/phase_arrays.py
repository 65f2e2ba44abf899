"""The figures of PHASE rows that detectors use, as arrays. Unknown and impossible values are NaN, never 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.core.model.unit_formats import NS_PER_S
from fairlead.explain.analysis.history.rate_bins import SILENT
from fairlead.explain.analysis.table_columns import read_float_column, read_integer_column, read_job_code_columns

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class PhaseFigures:
    """Arrays of (P,): `amount` bytes (of metadata phases: operations), seconds active and silent, request size, when it
    began, `job` codes (the same job has the same, within one call)."""

    amount: F64
    active_s: F64
    silent_s: F64
    request: F64
    start_ns: I64
    job: I64

    @property
    def rate(self) -> F64:
        """log2 of the amount a second while active."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log2(self.amount / self.active_s))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a rate."""
        return np.isfinite(self.rate)

    def select(self, rows: I64) -> PhaseFigures:
        """Return the figures of these rows."""
        return PhaseFigures(
            self.amount[rows],
            self.active_s[rows],
            self.silent_s[rows],
            self.request[rows],
            self.start_ns[rows],
            self.job[rows],
        )


def extract_phase_arrays(phases: pa.Table) -> PhaseFigures:
    """Return the figures of PHASE rows: bytes (metadata: operations), seconds, mean request bytes, job codes."""
    metadata = pc.equal(phases["kind"].cast(pa.string()), "metadata").fill_null(False).to_numpy(zero_copy_only=False)
    amount = np.where(metadata, read_float_column(phases, "metadata_ops"), read_float_column(phases, "bytes"))
    start, end = read_integer_column(phases, "start_ns"), read_integer_column(phases, "end_ns")
    active = read_float_column(phases, "active_ns")
    sound = (end > start) & (active > 0) & (active <= end - start + NS_PER_S)
    active = np.where(sound, active / NS_PER_S, np.nan)
    silent = np.where(sound, np.minimum(_silent_ns(phases), np.maximum(end - start, 0.0)) / NS_PER_S, np.nan)
    return PhaseFigures(
        amount=np.where(amount > 0, amount, np.nan),
        active_s=active,
        silent_s=silent,
        request=np.where(
            read_float_column(phases, "request_bytes") > 0, read_float_column(phases, "request_bytes"), np.nan
        ),
        start_ns=read_integer_column(phases, "start_ns"),
        job=read_job_code_columns(phases),
    )


def _silent_ns(phases: pa.Table) -> F64:
    """Time without I/O inside each phase; 0 where its distribution is not known."""
    bins, times, row = flatten_rates_to_arrays(phases)
    still = bins == SILENT
    return np.asarray(np.bincount(row[still], times[still], phases.num_rows), np.float64)


def flatten_rates_to_arrays(phases: pa.Table) -> tuple[I64, F64, I64]:
    """Flatten the rate distributions: bin, nanoseconds and row of each entry. Rows whose two lists differ in
    length, and entries that are null or not above 0, are left out."""
    nothing = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
    if not phases.num_rows:
        return nothing
    bins, times = phases["rate_bins"].combine_chunks(), phases["rate_ns"].combine_chunks()
    lengths = [
        np.asarray(pc.list_value_length(one).fill_null(-1).to_numpy(zero_copy_only=False)) for one in (bins, times)
    ]
    sound = pa.array((lengths[0] == lengths[1]) & (lengths[0] > 0))
    rows = np.flatnonzero(sound.to_numpy(zero_copy_only=False))
    if not len(rows):
        return nothing
    flat_bins, flat_times = pc.list_flatten(bins.filter(sound)), pc.list_flatten(times.filter(sound))
    row = np.repeat(rows, lengths[0][rows])
    bin_values = np.asarray(flat_bins.fill_null(SILENT - 1).to_numpy(zero_copy_only=False), np.int64)
    time_values = np.asarray(flat_times.fill_null(0).to_numpy(zero_copy_only=False), np.float64)
    keep = (time_values > 0) & (bin_values >= SILENT)
    return bin_values[keep], time_values[keep], row[keep].astype(np.int64)
