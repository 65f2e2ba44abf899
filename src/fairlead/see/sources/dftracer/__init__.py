"""DFTracer traces (`.pfw`, `.pfw.gz`): Chrome-trace events, one JSON object per line, as `ops` and `files`.

Not here: several files of one job as one input, and dense ranks (`fairlead.see.sources.inputs`).
"""

from __future__ import annotations

from fairlead.see.sources.dftracer.source import DFTracerSource

__all__ = ["DFTracerSource"]
