"""`lfs getstripe` texts, and the targets forwarders placed files on."""

from __future__ import annotations

import pyarrow as pa

from fairlead.explain.analysis.file_targets import match_file_targets
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
    plain, composite = parser.parse_files((PLAIN + COMPOSITE).splitlines(keepends=True))
    assert plain.path == "/scratch/a b"
    assert plain.components == (Component(0, None, 1 << 20, 2, "flash", "raid0", (1, 0)),)
    assert composite.components[:2] == (
        Component(0, 100, 64, 1, None, "raid0", (4,)),
        Component(100, None, 10, 2, None, "raid0", (5, 6)),
    )
    assert composite.components[2].targets == ()
    assert (parser.unknown, parser.unknown_example) == (1, "strange line")
    assert list(Parser().parse_files([])) == []


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
    assert match_file_targets(files, placed) == {1: ["t0", "t1"], 2: ["t2"]}
