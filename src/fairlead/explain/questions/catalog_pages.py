"""Questions that only the pages ask: one job's lanes, ranks, files and requests, whole layers, the machine now.

Part of `question_catalog`. Not here: the answering (`questions.pages`).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fairlead.explain.questions import answers, answers_own_health, answers_pages, own_health
from fairlead.explain.questions.lake_queries import Sight
from fairlead.explain.questions.pages import component, job_files, rank_map, request_sizes, volumes, waits
from fairlead.explain.questions.pages import job_timeline as of_job
from fairlead.explain.questions.pages import layer as layers
from fairlead.explain.questions.pages import machine_now as now
from fairlead.explain.questions.pages import recent_jobs as mine
from fairlead.explain.questions.question import (
    Asking,
    Limit,
    LoadAsked,
    Name,
    PageAsked,
    Points,
    Question,
    TimeParameters,
)


class RunAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run of a job number; a span zooms into it. `points`: of the axis, one a pixel."""

    cluster: Name = ""
    points: Points = 800
    neighbours: Annotated[int, msgspec.Meta(ge=0, le=50)] = 8


class RanksAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run, by rank or node; at most so many rows and columns."""

    cluster: Name = ""
    by: Literal["", "rank", "node"] = ""
    rows: Annotated[int, msgspec.Meta(ge=1, le=256)] = 128
    columns: Annotated[int, msgspec.Meta(ge=10, le=1000)] = 300


class FilesAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run; how files are sorted; `like`: a part of the path."""

    cluster: Name = ""
    like: Name = ""
    sort: Literal["bytes", "read", "write", "metadata", "time", "path"] = "bytes"
    limit: Limit = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class RequestsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which run."""

    cluster: Name = ""


class MineAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many jobs; of whom, for who sees all."""

    user: Name = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 25
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class NowAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When "now" is: a moment, or nothing."""

    at: Annotated[str, msgspec.Meta(max_length=64)] = ""


class LayerAsked(LoadAsked, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many components; `peak` is what counts as full load."""

    sort: Literal["load", "id", "read", "write", "metadata", "fullness"] = "load"
    limit: Limit = 200
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0


class ComponentAsked(PageAsked, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which component of the layer: its name may hold slashes."""

    id: Name = ""


class WaitsAsked(TimeParameters, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of one component, or of the whole layer."""

    component: Name = ""


class OwnHealthAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Nothing."""


def _own_health(asking: Asking, name: str, asked: OwnHealthAsked, sight: Sight, now_ns: int) -> answers.Answer:  # noqa: ARG001
    return own_health.describe_own_health(asking.lake, now_ns, kept=asking.kept, keep=asking.keep)


PAGE_QUESTIONS: dict[str, Question] = {
    "job_timeline": Question(
        "jobs/{name}/timeline",
        RunAsked,
        answers_pages.JobTimeline,
        "One job through every layer, on one axis.",
        of_job.build_job_timeline,
    ),
    "job_ranks": Question(
        "jobs/{name}/ranks",
        RanksAsked,
        answers_pages.Ranks,
        "Which ranks of a job moved data when.",
        rank_map.build_rank_map,
    ),
    "job_files": Question(
        "jobs/{name}/files", FilesAsked, answers_pages.JobFiles, "Files of a job.", job_files.list_job_files
    ),
    "job_requests": Question(
        "jobs/{name}/requests",
        RequestsAsked,
        answers_pages.JobRequests,
        "Request sizes of a job.",
        request_sizes.describe_request_sizes,
    ),
    "mine": Question("mine", MineAsked, answers_pages.MyJobs, "My recent jobs at a glance.", mine.list_recent_jobs),
    "now": Question("now", NowAsked, answers_pages.Now, "The machine now, layer by layer.", now.describe_machine_now),
    "layer_hours": Question(
        "layers/{name}/hours",
        LoadAsked,
        answers.HeatMap,
        "Components of a layer by hour: their busiest minute.",
        layers.build_layer_heat_map,
    ),
    "layer_cdf": Question(
        "layers/{name}/cdf", LoadAsked, answers.Cdf, "How busy a layer is, as a distribution.", layers.build_layer_cdf
    ),
    "layer_waits": Question(
        "layers/{name}/waits", WaitsAsked, answers_pages.Waits, "Queues and latencies of a layer.", waits.describe_waits
    ),
    "layer_component": Question(
        "layers/{name}/component",
        ComponentAsked,
        answers_pages.ComponentLook,
        "One component of a layer.",
        component.describe_component_page,
    ),
    "layer": Question(
        "layers/{name}", LayerAsked, answers_pages.Layer, "All components of a layer.", layers.describe_layer
    ),
    "own_health": Question(
        "health/own", OwnHealthAsked, answers_own_health.OwnHealth, "Health of fairlead itself.", _own_health
    ),
    "volumes": Question(
        "volumes", TimeParameters, answers_pages.Volumes, "Daily volumes of every layer.", volumes.build_daily_volumes
    ),
}
"""`{name}` of a layer: forwarder, target, mds, network or device."""
