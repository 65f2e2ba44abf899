"""The machine as the next job finds it: what running jobs and those granted just before keep busy.

Pure in time: one value after the other, nothing is changed. Not here: who runs (`site`), the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from fairlead.core.model.site import Layer, Site
from fairlead.decide.planning.expectations import Arriving, build_job_expectation
from fairlead.decide.planning.live_site import Live
from fairlead.decide.policies.allocation.contract import Running
from fairlead.decide.policies.next_run.expectation import Past
from fairlead.decide.policies.paths.contract import ExpectedJob, Grant
from fairlead.decide.policies.paths.path_from_allocation import (
    FORWARDERS,
    TARGETS,
    build_allocation_entry,
    list_allocation_counts,
)

MOST_ENTERED = 2000
"""So many running jobs are listed one by one; of more, only the sums."""


def add_running_commitments(state: Live, runs: Past, at_ns: int) -> tuple[Site, list[str]]:
    """The machine with what its running jobs are expected to keep busy, and what is not known of them."""
    site = state.site
    rows = {
        layer: Running(len(parts), list_allocation_counts(site, layer))
        for layer, parts in ((FORWARDERS, site.forwarders), (TARGETS, site.targets))
    }
    unknown = 0
    for job in state.running[-MOST_ENTERED:]:
        arriving = Arriving(
            job_id=job.job_id,
            user=job.user,
            program=job.program,
            node_count=job.node_count,
            cores=job.cores,
            processes=job.processes,
        )
        expected = build_job_expectation(arriving, runs, (), at_ns)
        unknown += not expected.runs_known
        _enter(rows, site, expected, {FORWARDERS: job.forwarders, TARGETS: job.targets})
    told = []
    if unknown:
        told.append(
            f"running jobs: of {unknown} of {len(state.running)} no earlier run is known, so their demand is unknown"
        )
    if len(state.running) > MOST_ENTERED:
        told.append(f"running jobs: only the latest {MOST_ENTERED} of {len(state.running)} are listed one by one")
    forwarders, targets = (_busy(getattr(site, layer), rows[layer]) for layer in (FORWARDERS, TARGETS))
    return replace(site, forwarders=forwarders, targets=targets), told


def add_grant_commitment(site: Site, expected: ExpectedJob, grant: Grant) -> Site:
    """The machine once a job has what it was granted: one job more on each component, its rate and its share of time;
    forwarders granted to it alone are kept. A job without forwarders goes by the site's map."""
    rows = {FORWARDERS: deepcopy(site.forwarders.running), TARGETS: deepcopy(site.targets.running)}
    forwarders = grant.forwarders or _mapped(site, expected)
    _enter(rows, site, expected, {FORWARDERS: forwarders, TARGETS: grant.targets})
    return replace(
        site,
        forwarders=_taken(site.forwarders, forwarders, expected, rows[FORWARDERS], kept=grant.isolated),
        targets=_taken(site.targets, grant.targets, expected, rows[TARGETS], kept=False),
    )


def add_forwarder_commitment(site: Site, forwarders: Sequence[int]) -> Site:
    """The machine with these forwarders kept for one job."""
    layer = site.forwarders
    reserved = layer.reserved.copy()
    reserved[list(forwarders)] = True
    return replace(site, forwarders=replace(layer, reserved=reserved))


def _enter(
    rows: Mapping[str, object], site: Site, expected: ExpectedJob, places: Mapping[str, tuple[int, ...]]
) -> None:
    for layer, running in rows.items():
        if isinstance(running, Running) and places[layer]:
            entry = build_allocation_entry(expected, site, layer, places[layer])
            if entry is not None:
                running.enter(*entry)


def _busy(layer: Layer, running: Running) -> Layer:
    return replace(layer, occupancy=np.array(running.occupancy), running=running)


def _mapped(site: Site, expected: ExpectedJob) -> tuple[int, ...]:
    found = site.default_forwarder[list(expected.node_ids)]
    return tuple(int(at) for at in np.unique(found[found >= 0]))


def _taken(layer: Layer, places: tuple[int, ...], expected: ExpectedJob, running: object, *, kept: bool) -> Layer:
    if not places:
        return replace(layer, running=running)
    at = list(places)
    jobs, load, reserved = layer.jobs.copy(), layer.load.copy(), layer.reserved.copy()
    jobs[at] += 1
    rate = expected.bandwidth_bytes_per_s
    if rate is not None:
        more = rate / len(at) / layer.bandwidth[at]
        # Where nothing was heard of a component, its load stays unknown: what is added is no more than a part of it.
        load[at] = np.minimum(load[at] + np.nan_to_num(more, nan=0.0), 1.0)
    reserved[at] |= kept
    return replace(
        layer,
        jobs=jobs,
        load=load,
        reserved=reserved,
        occupancy=np.array(running.occupancy) if isinstance(running, Running) else layer.occupancy,
        running=running,
    )
