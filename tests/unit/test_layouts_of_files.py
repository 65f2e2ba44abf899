"""`lfs getstripe` texts, and bytes of operations by target against a plain loop."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.model.identity import file_id
from fairlead.core.model.tables import LAYOUTS, OPS
from fairlead.explain.analysis.correlate_targets import BY_TARGET, bytes_by_target, layout_rows, placed_by_name
from fairlead.see.probes.layouts import Component, Parser

PLAIN = """/scratch/a b
lmm_stripe_count:  2
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 1
lmm_pool:          flash
\tobdidx\t\t objid\t\t objid\t\t group
\t     1\t             3\t          0x3\t             0
\t     0\t             7\t          0x7\t             0

/scratch/dir
stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1

"""
COMPOSITE = """/scratch/pfl
  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   3
    lcme_id:             1
    lcme_mirror_id:      0
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   100
      lmm_stripe_count:  1
      lmm_stripe_size:   64
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: 4
      lmm_objects:
      - 0: { l_ost_idx: 4, l_fid: [0x100040000:0x2:0x0] }

    lcme_id:             2
    lcme_mirror_id:      0
    lcme_flags:          init
    lcme_extent.e_start: 100
    lcme_extent.e_end:   EOF
      lmm_stripe_count:  2
      lmm_stripe_size:   10
      lmm_pattern:       raid0
      lmm_objects:
      - 0: { l_ost_idx: 5, l_fid: [0x100050000:0x2:0x0] }
      - 1: { l_ost_idx: 6, l_fid: [0x100060000:0x2:0x0] }

    lcme_id:             3
    lcme_flags:          0
    lcme_extent.e_start: 200
    lcme_extent.e_end:   EOF
      lmm_stripe_count:  -1
      lmm_stripe_size:   1048576
      lmm_stripe_offset: -1

strange line
"""


def test_plain_and_composite_layouts_are_read() -> None:
    parser = Parser()
    plain, composite = parser.files((PLAIN + COMPOSITE).splitlines(keepends=True))
    assert plain.path == "/scratch/a b"
    assert plain.components == (Component(0, None, 1 << 20, 2, "flash", "raid0", (1, 0)),)
    assert composite.components[:2] == (
        Component(0, 100, 64, 1, None, "raid0", (4,)),
        Component(100, None, 10, 2, None, "raid0", (5, 6)),
    )
    assert composite.components[2].targets == ()
    assert (parser.unknown, parser.unknown_example) == (1, "strange line")
    assert list(Parser().files([])) == []


def test_layouts_become_rows() -> None:
    batch = layout_rows(Parser().files(COMPOSITE.splitlines()), "/scratch")
    assert batch.schema.equals(LAYOUTS.schema)
    rows = batch.to_pylist()
    assert {row["file_id"] for row in rows} == {file_id("/scratch", "/scratch/pfl")}
    assert [(r["extent_start"], r["extent_end"], r["targets"]) for r in rows] == [
        (0, 100, [4]),
        (100, None, [5, 6]),
        (200, None, None),
    ]


S = 1_000_000_000
EPOCH = 1_700_000_000 * S
LAYOUT = pa.Table.from_pylist(
    [
        {"file_id": 1, "component": 0, "stripe_size": 4, "targets": [7, 8, 9]},
        {"file_id": 2, "component": 0, "stripe_size": 64, "extent_start": 0, "extent_end": 20, "targets": [4]},
        {"file_id": 2, "component": 1, "stripe_size": 5, "extent_start": 20, "extent_end": 90, "targets": [5, 6]},
        {"file_id": 3, "component": 0, "stripe_size": 5, "targets": []},
    ],
    LAYOUTS.schema,
)
OP = st.fixed_dictionaries(
    {
        "start": st.integers(0, 2 * S),
        "job_id": st.sampled_from(["1", "2", None]),
        "op": st.sampled_from(["read", "write", "open"]),
        "file_id": st.sampled_from([1, 1, 2, 3, None]),
        "offset": st.sampled_from([None, 0, 3, 19, 85, 200]),
        "size": st.sampled_from([None, 0, 1, 7, 40]),
        "stride": st.sampled_from([None, 7, 40, -7, 11]),
        "count": st.sampled_from([1, 1, 2, 5]),
    }
)


def target_of(file: int | None, at: int) -> int | None:
    if file == 1:
        return [7, 8, 9][at // 4 % 3]
    if file == 2:
        return 4 if at < 20 else [5, 6][at // 5 % 2] if at < 90 else None
    return None


@settings(max_examples=80, deadline=None)
@given(st.lists(OP, max_size=6))
def test_bytes_lie_where_the_layout_says(rows: list[dict[str, object]]) -> None:
    made = [
        {
            **{k: v for k, v in r.items() if k != "start"},
            "start_ns": EPOCH + r["start"],
            "end_ns": EPOCH + r["start"],
            "busy_ns": 0,
            "interface": "POSIX",
        }
        for r in rows
    ]
    found = bytes_by_target(pa.Table.from_pylist(made, OPS.schema), LAYOUT)
    assert found.schema.equals(BY_TARGET)
    expected: dict[tuple[object, ...], int] = defaultdict(int)
    for row in made:
        if row["op"] == "open" or not row["size"]:
            continue
        known = row["offset"] is not None and (row["count"] == 1 or row["stride"] is not None)
        offsets = [row["offset"] + k * (row["stride"] or 0) for k in range(row["count"])] if known else []
        whole = abs(row["stride"] or 0) == row["size"] and row["count"] > 1
        if known and whole and min(offsets) < 0:
            known = False
        for k in range(row["count"]):
            for byte in range(row["size"]):
                at = offsets[k] + byte if known and offsets[k] >= 0 else None
                target = None if at is None else target_of(row["file_id"], at)
                expected[row["start_ns"] // S * S, row["job_id"], target, row["op"]] += 1
    told: dict[tuple[object, ...], int] = {}
    for row in found.to_pylist():
        for way in ("read", "write"):
            if row[f"{way}_bytes"]:
                key = (row["ts_ns"], row["job_id"], row["target"], way)
                assert key not in told
                told[key] = row[f"{way}_bytes"]
    assert told == expected


def test_files_are_found_among_what_forwarders_placed() -> None:
    files = pa.table(
        {
            "file_id": [1, 2, 3, 4, 5],
            "path": ["/mnt/run/out", "/mnt/deep/run/out", "/mnt/both", "/mnt/nowhere", None],
        }
    )
    placed = pa.table(
        {
            "a": ["tree:/run/out", "tree:/deep/run/out", "one:/both", "two:/both", "tree:77"],
            "targets": [["t0", "t1"], ["t2"], ["t3"], ["t4"], ["t5"]],
        }
    )
    assert placed_by_name(files, placed) == {1: ["t0", "t1"], 2: ["t2"]}
