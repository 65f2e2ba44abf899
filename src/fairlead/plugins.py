"""What an author of a plug-in imports: sources, probes, policies, questions, pages, trees, in one place.

A name is looked up when it is first used, so importing this module costs nothing. Not here: how a plug-in is found and
guarded (`fairlead.core.extensions`), the suites it must pass (`fairlead.kit.testing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.extensions import load_extension_object

if TYPE_CHECKING:
    from fairlead.core.errors import CorruptInputError, FairleadError, InputError, UsageError
    from fairlead.core.model.job import Job
    from fairlead.core.model.missing import Missing
    from fairlead.core.model.site import Layer
    from fairlead.core.model.tables import TABLES
    from fairlead.core.model.tables import build_table_batch as build_batch
    from fairlead.decide.policies.allocation.contract import NONE as NO_RESOURCE
    from fairlead.decide.policies.allocation.contract import Applications, Decision, Policy, Running
    from fairlead.decide.policies.next_run.contract import Predictor
    from fairlead.decide.policies.paths.contract import PathPolicy
    from fairlead.decide.policies.placement.files import Placement
    from fairlead.decide.policies.requests.orders import Order
    from fairlead.explain.questions.answers import Answer
    from fairlead.explain.questions.lake_queries import Sight, UnknownNameError
    from fairlead.explain.questions.question import Asking, Question, TimeParameters
    from fairlead.explain.questions.span import Span
    from fairlead.see.probes.base import AbsentError, Event, Probe, ProbeResult, Reading, Service
    from fairlead.see.sources.base import Item, JoinableSource, LayeredSource, Origin, SeriesSource, Source
    from fairlead.see.sources.line_blocks import Block, read_line_blocks
    from fairlead.see.sources.line_blocks import list_block_end_gaps as list_end_gaps
    from fairlead.show.web.site_pages import Ask, Page, Table, Text
    from fairlead.steer.fs.trees.base import FileTree

__all__ = [
    "NO_RESOURCE",
    "TABLES",
    "AbsentError",
    "Answer",
    "Applications",
    "Ask",
    "Asking",
    "Block",
    "CorruptInputError",
    "Decision",
    "Event",
    "FairleadError",
    "FileTree",
    "InputError",
    "Item",
    "Job",
    "JoinableSource",
    "Layer",
    "LayeredSource",
    "Missing",
    "Order",
    "Origin",
    "Page",
    "PathPolicy",
    "Placement",
    "Policy",
    "Predictor",
    "Probe",
    "ProbeResult",
    "Question",
    "Reading",
    "Running",
    "SeriesSource",
    "Service",
    "Sight",
    "Source",
    "Span",
    "Table",
    "Text",
    "TimeParameters",
    "UnknownNameError",
    "UsageError",
    "build_batch",
    "list_end_gaps",
    "read_line_blocks",
]
_PLACES = {
    "Source": "fairlead.see.sources.base:Source",
    "JoinableSource": "fairlead.see.sources.base:JoinableSource",
    "LayeredSource": "fairlead.see.sources.base:LayeredSource",
    "SeriesSource": "fairlead.see.sources.base:SeriesSource",
    "Origin": "fairlead.see.sources.base:Origin",
    "Item": "fairlead.see.sources.base:Item",
    "Block": "fairlead.see.sources.line_blocks:Block",
    "read_line_blocks": "fairlead.see.sources.line_blocks:read_line_blocks",
    "list_end_gaps": "fairlead.see.sources.line_blocks:list_block_end_gaps",
    "TABLES": "fairlead.core.model.tables:TABLES",
    "build_batch": "fairlead.core.model.tables:build_table_batch",
    "Job": "fairlead.core.model.job:Job",
    "Missing": "fairlead.core.model.missing:Missing",
    "FairleadError": "fairlead.core.errors:FairleadError",
    "InputError": "fairlead.core.errors:InputError",
    "CorruptInputError": "fairlead.core.errors:CorruptInputError",
    "UsageError": "fairlead.core.errors:UsageError",
    "Probe": "fairlead.see.probes.base:Probe",
    "Reading": "fairlead.see.probes.base:Reading",
    "ProbeResult": "fairlead.see.probes.base:ProbeResult",
    "Event": "fairlead.see.probes.base:Event",
    "Service": "fairlead.see.probes.base:Service",
    "AbsentError": "fairlead.see.probes.base:AbsentError",
    "Policy": "fairlead.decide.policies.allocation.contract:Policy",
    "Applications": "fairlead.decide.policies.allocation.contract:Applications",
    "Decision": "fairlead.decide.policies.allocation.contract:Decision",
    "Layer": "fairlead.core.model.site:Layer",
    "Running": "fairlead.decide.policies.allocation.contract:Running",
    "NO_RESOURCE": "fairlead.decide.policies.allocation.contract:NONE",
    "PathPolicy": "fairlead.decide.policies.paths.contract:PathPolicy",
    "Placement": "fairlead.decide.policies.placement.files:Placement",
    "Order": "fairlead.decide.policies.requests.orders:Order",
    "Predictor": "fairlead.decide.policies.next_run.contract:Predictor",
    "Question": "fairlead.explain.questions.question:Question",
    "TimeParameters": "fairlead.explain.questions.question:TimeParameters",
    "Asking": "fairlead.explain.questions.question:Asking",
    "Answer": "fairlead.explain.questions.answers:Answer",
    "Sight": "fairlead.explain.questions.lake_queries:Sight",
    "UnknownNameError": "fairlead.explain.questions.lake_queries:UnknownNameError",
    "Span": "fairlead.explain.questions.span:Span",
    "Page": "fairlead.show.web.site_pages:Page",
    "Table": "fairlead.show.web.site_pages:Table",
    "Text": "fairlead.show.web.site_pages:Text",
    "Ask": "fairlead.show.web.site_pages:Ask",
    "FileTree": "fairlead.steer.fs.trees.base:FileTree",
}
"""Name → where it is defined. These names stay when the house is rearranged."""


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'fairlead.plugins' has no attribute {name!r}")
    found = globals()[name] = load_extension_object(_PLACES[name])
    return found


def __dir__() -> list[str]:
    return __all__
