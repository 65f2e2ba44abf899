"""Jobs of a trace in the Standard Workload Format (Feitelson's archive). It holds no I/O: that is drawn by `io_rules`.

Fields: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. Not here: opening files.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from fairlead.core.model.site import Site
from fairlead.decide.sim.platform import build_taihulight_platform
from fairlead.decide.sim.workloads import sunway
from fairlead.decide.sim.workloads.import_result import (
    LONGEST_RUN_S,
    MOST_NUMBER,
    ImportResult,
    build_empty_import_error,
    unpack_import_text,
)
from fairlead.decide.sim.workloads.io_rules import (
    F64,
    I64,
    PATTERN_COUNTS,
    PROGRAM_SIGMA,
    STORM,
    TRIVIAL,
    Programs,
    add_io,
)

FIELDS = 18
_SUBMIT, _WAIT, _RUN, _USED, _ASKED, _STATUS, _USER, _PROGRAM = 1, 2, 3, 4, 7, 10, 11, 13


def read_swf(
    data: bytes,
    seed: int | tuple[int, ...],
    *,
    machine: Site | None = None,
    processors_per_node: int = 1,
    volume_scale: float = 1.0,
    where: str = "swf",
) -> ImportResult:
    """The jobs of a trace, plain or gzip. Lines that are no job are dropped and counted.

    Jobs of one user and executable at one size are runs of one program, where the trace names executables. Of the
    programs 16.3 % have non-trivial I/O, with modes, volumes and phases as TaihuLight's population (`io_rules`). Nodes
    of a job are in a row, where the last left off. Raises InputError where no job is left.
    """
    machine = machine or build_taihulight_platform()
    table, lines, rows, dropped, unknown_wait = _rows(unpack_import_text(data, where))
    if not len(table):
        raise build_empty_import_error(rows, dropped, where)
    order = np.lexsort((np.arange(len(table)), table[:, 0]))
    table, lines = table[order], lines[order]
    start, run_s = table[:, 0] - table[0, 0], table[:, 1]
    nodes = np.ceil(table[:, 2] / processors_per_node).astype(np.int64)
    if (nodes > machine.nodes).any():
        fits = nodes <= machine.nodes
        dropped["larger than the machine"] = int((~fits).sum())
        table, lines, start, run_s, nodes = table[fits], lines[fits], start[fits], run_s[fits], nodes[fits]
        if not len(table):
            raise build_empty_import_error(rows, dropped, where)
    seeds = np.random.SeedSequence(seed).spawn(2)
    program, site = _programs(np.random.default_rng(seeds[0]), table, nodes, run_s)
    behind = np.cumsum(nodes) - nodes
    season = add_io(
        seeds[1],
        site,
        program,
        start,
        run_s,
        np.minimum(behind % machine.nodes, machine.nodes - nodes),
        machine,
        span_s=float((start + run_s).max()),
        volume_scale=volume_scale,
    )
    assumed = [
        "I/O is drawn from published statistics of TaihuLight's jobs: the format has no I/O",
        "the nodes of a job are contiguous, starting where the last job left off",
        f"{processors_per_node} processors to a node",
    ]
    if unknown_wait:
        assumed.append(f"{unknown_wait:,} jobs without a known wait begin when submitted")
    return ImportResult(season=season, lines=tuple(lines.tolist()), rows=rows, dropped=dropped, assumed=tuple(assumed))


def _rows(text: str) -> tuple[F64, I64, int, dict[str, int], int]:
    """Start, run time, processors, user, executable; the line of each, and what was not taken."""
    kept, lines = [], []
    dropped: Counter[str] = Counter()
    rows = unknown_wait = 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith(";"):
            continue
        rows += 1
        parts = bare.split()
        if len(parts) != FIELDS:
            dropped["with a different number of fields"] += 1
            continue
        try:
            values = [float(parts[i]) for i in (_SUBMIT, _WAIT, _RUN, _USED, _ASKED, _STATUS, _USER, _PROGRAM)]
        except ValueError:
            dropped["with something that is not a number"] += 1
            continue
        submit, wait, run, used, asked, status, user, program = values
        if not all(-1.0 <= value < MOST_NUMBER for value in values) or submit < 0:
            dropped["with impossible numbers"] += 1
            continue
        if run <= 0:
            # Status 5 is a job cancelled, mostly before it ran.
            dropped["cancelled before they ran" if status == 5 else "without a run time"] += 1
            continue
        if run > LONGEST_RUN_S:
            dropped["longer than a year"] += 1
            continue
        processors = used if used > 0 else asked
        if processors <= 0:
            dropped["without processors"] += 1
            continue
        unknown_wait += wait < 0
        kept.append((submit + max(wait, 0.0), run, processors, user, program))
        lines.append(number)
    return np.array(kept).reshape(-1, 5), np.array(lines, np.int64), rows, dict(dropped), unknown_wait


def _programs(rng: np.random.Generator, table: F64, nodes: I64, run_s: F64) -> tuple[I64, Programs]:
    named = table[:, 4] > 0
    keys = np.stack([table[:, 3], np.where(named, table[:, 4], -2.0 - np.arange(len(table))), nodes], axis=1)
    _, first, program = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    program = program.reshape(-1)
    count = len(first)
    runs = np.bincount(program)
    # A part of the programs, each with its runs, has I/O worth the name; the modes among them as published.
    draw = rng.random(count)
    share = np.array(sunway.MODE_JOBS) / sum(sunway.MODE_JOBS)
    mode = rng.choice(len(share), count, p=share)
    mode = np.where(draw < sunway.NONTRIVIAL_SHARE, mode, TRIVIAL)
    mode = np.where(draw < sunway.HIGH_MDOPS_SHARE, STORM, mode)
    return program, Programs(
        mode=mode,
        pattern=rng.integers(0, 1 << 30, count) % PATTERN_COUNTS[mode],
        nodes=nodes[first],
        request=rng.choice(np.array(sunway.REQUESTS), count, p=sunway.REQUEST_SHARES),
        steps=rng.integers(2, 7, count),
        run_s=np.bincount(program, run_s) / runs,
        scale=rng.lognormal(-(PROGRAM_SIGMA**2) / 2, PROGRAM_SIGMA, count),
        chance=runs / runs.sum(),
    )
