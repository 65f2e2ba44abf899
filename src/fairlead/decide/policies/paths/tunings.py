"""What AIOT (Yang et al., IPDPS 2022) sets along a path: read-ahead, P:(1-P), stripes, data on the metadata target.

Pure functions of an expected job and the components it was given. Each answers None, with the reason, where it has no
ground to change anything. Not here: which components (`aiot`).
"""

from __future__ import annotations

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.policies.paths.contract import ExpectedJob, Reason
from fairlead.decide.policies.paths.layer import (
    choose_layer_count,
    compute_layer_use,
    find_sound_in_layer,
    find_typical_in_layer,
    format_layer_amount,
)

KI64 = 64 << 10
"""Stripe sizes and ends of layout components are whole multiples of it (Lustre)."""
MOST_STRIPE_BYTES = 1 << 30
"""Larger stripes are not set (Lustre refuses 4 GiB)."""
LIGHTLY = 0.5
"""A forwarder is lightly loaded up to this share."""
METADATA_SHARE = 0.5
"""P of P:(1-P): with one half the victim's rate doubled and the metadata-heavy job lost 10 % (Beacon, TOS 2023)."""
HEAVY_MDOPS = 300.0
"""Metadata operations a second from which on a job is metadata-heavy (Beacon)."""
SMALL_FILE_BYTES = 1 << 20
"""Files up to this size go to the metadata target whole."""
MANY_FILES = 100
"""... where a job has so many of them or more."""


def tune_prefetch(expected: ExpectedJob, site: Site, forwarders: tuple[int, ...]) -> tuple[int | None, Reason]:
    """Read-ahead of a file: chunk = buffer x forwarders / files, where requests are smaller and the forwarders lightly
    loaded. Many files open with a long read-ahead each would throw each other out of the buffer."""
    what = "prefetch_bytes"
    if not forwarders:
        return None, Reason(what=what, why="unchanged: its forwarders are the site's default")
    if not expected.files or expected.request_bytes is None or not expected.read_bytes:
        return None, Reason(what=what, why="unchanged: its files and request sizes are not known")
    load = float(compute_layer_use(site.forwarders)[list(forwarders)].max())
    chunk = int(site.forwarder_buffer_bytes * len(forwarders) / expected.files)
    buffer = format_layer_amount(site.forwarder_buffer_bytes)
    sizes = f"{buffer}B x {len(forwarders)} / {expected.files} files = {format_layer_amount(chunk)}B"
    if load > LIGHTLY:
        return None, Reason(what=what, why=f"unchanged: one of its forwarders is {load:.0%} used")
    if expected.request_bytes >= chunk:
        return None, Reason(
            what=what, why=f"unchanged: requests of {format_layer_amount(expected.request_bytes)}B against {sizes}"
        )
    return chunk, Reason(what=what, why=f"{sizes}, requests are {format_layer_amount(expected.request_bytes)}B")


def tune_metadata_share(expected: ExpectedJob, site: Site, forwarders: tuple[int, ...]) -> tuple[float | None, Reason]:
    """P of P:(1-P) for a metadata-heavy job whose forwarders serve others as well."""
    what = "metadata_share"
    if expected.mdops is None or expected.mdops < HEAVY_MDOPS:
        rate = "not known" if expected.mdops is None else f"{expected.mdops:.0f} operations/s"
        return None, Reason(what=what, why=f"unchanged: metadata {rate}, heavy is {HEAVY_MDOPS:.0f} and more")
    jobs = int(site.forwarders.jobs[list(forwarders)].max()) if forwarders else 0
    if not jobs:
        return None, Reason(what=what, why="unchanged: it shares none of the chosen forwarders")
    return METADATA_SHARE, Reason(
        what=what,
        why=f"{expected.mdops:.0f} metadata operations/s beside {jobs} other jobs: {METADATA_SHARE:.0%} for metadata",
    )


def tune_stripes(expected: ExpectedJob, site: Site, most: int | None = None) -> tuple[int | None, int | None, Reason]:
    """Stripe count and size of the files it makes. A file shared by all: count = process_bw x io_parallelism / ost_bw,
    size = offset_difference / io_parallelism in whole 64 KiB. A file a process: one stripe. `most`: targets it has."""
    what = "stripe_count"
    if expected.mode in ("N-N", "N-M", "1-1") and (expected.files or 0) > 1:
        return 1, None, Reason(what=what, why=f"{expected.files} files that are not shared: no striping")
    if expected.mode != "N-1":
        return None, None, Reason(what=what, why="unchanged: not known to write one shared file")
    available = len(find_sound_in_layer(site.targets)) if most is None else most
    peak, parallel = find_typical_in_layer(site.targets.bandwidth), expected.io_processes
    if peak is None or not parallel or not available:
        return None, None, Reason(what=what, why="unchanged: processes doing I/O or a target's bandwidth not known")
    total = expected.bandwidth_bytes_per_s
    each = total / parallel if total else site.client_bandwidth
    wanted = each * parallel / peak
    count = choose_layer_count(max(wanted, 1.0), site.stripe_counts, available)
    rates = f"{format_layer_amount(each)}B/s x {parallel} processes / {format_layer_amount(peak)}B/s"
    why = f"one file: {rates} a target = {wanted:.1f}"
    span = expected.offset_difference_bytes
    if not span:
        return count, None, Reason(what=what, why=f"{why}; stripe size unchanged, offsets not known")
    stripe = min(max(int(span / parallel) // KI64 * KI64, KI64), MOST_STRIPE_BYTES)
    return (
        count,
        stripe,
        Reason(
            what=what,
            why=f"{why}; {format_layer_amount(span)}B apart / {parallel} = stripes of {format_layer_amount(stripe)}B",
        ),
    )


def tune_dom(expected: ExpectedJob) -> tuple[int | None, Reason]:
    """How much of each file lies on the metadata target: all of it where a job has many small ones."""
    what = "dom_bytes"
    if expected.file_bytes is None or not expected.files:
        return None, Reason(what=what, why="unchanged: number and size of its files not known")
    if expected.file_bytes > SMALL_FILE_BYTES or expected.files < MANY_FILES:
        return None, Reason(
            what=what, why=f"unchanged: {expected.files} files of {format_layer_amount(expected.file_bytes)}B"
        )
    dom = max(int(np.ceil(expected.file_bytes / KI64)) * KI64, KI64)
    return dom, Reason(
        what=what,
        why=f"{expected.files} files of {format_layer_amount(expected.file_bytes)}B: on the metadata server, no target",
    )
