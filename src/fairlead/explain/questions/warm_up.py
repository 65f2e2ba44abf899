"""What is asked once at the start of a server, so that the first visitors of its pages need not wait for it.

Not here: when that is (`api.answers`).
"""

from __future__ import annotations

from fairlead.explain.questions.lake_queries import Tables, query_lake
from fairlead.store.stored_tables import OF_JOBS

FIRST_ASKED: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("now", "", {}),
    ("heatmap", "", {}),
    ("cdf", "", {}),
    *((question, kind, {"last": "1d"}) for kind in ("target", "mds") for question in ("layer_hours", "layer_cdf")),
)
"""Questions (name, what about, parameters) whose closed hours and minutes are kept between questions."""


def warm_up_job_files(lake: Tables) -> None:
    """Lets the lake look once which files hold which jobs. Raises LakeError."""
    for table in sorted(OF_JOBS):
        query_lake(lake, f"SELECT 1 AS one FROM {table} WHERE false", numbers=[""])  # noqa: S608 (our own names)
