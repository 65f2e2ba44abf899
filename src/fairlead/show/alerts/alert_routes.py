"""Everything alerts serve over HTTP: acknowledgements, silences, subscriptions. Not here: each of them, who may ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.routing import BaseRoute

from fairlead.explain.questions.lake_queries import Tables
from fairlead.show.alerts import (
    acknowledgement_routes as acknowledging,
)
from fairlead.show.alerts import (
    silence_routes as silencing,
)
from fairlead.show.alerts import (
    subscription_routes as subscribing,
)
from fairlead.show.alerts.acknowledgement_routes import Noted
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.state import State
from fairlead.show.web.identity import Door

OPERATIONS = (*acknowledging.OPERATIONS, *silencing.OPERATIONS, *subscribing.OPERATIONS)
"""What the routes are."""


def build_alert_routes(
    folder: Path, alerts: Alerts, lake: Tables, door: Door, clock: Callable[[], int], noted: Noted | None = None
) -> list[BaseRoute]:
    """The routes, over the state in `folder` and the findings of `lake`; `noted` writes the audit log."""
    return [
        *acknowledging.build_acknowledgement_routes(folder, lake, door, clock, noted),
        *silencing.build_silence_routes(folder, door, clock, noted),
        *subscribing.build_subscription_routes(folder, alerts, door, clock),
    ]


def read_acknowledged_alert_ids(folder: Path) -> Callable[[], list[str]]:
    """What tells the ids of all that is acknowledged, from the state in `folder`."""

    def ids() -> list[str]:
        with State(folder) as state:
            return list(state.list_acknowledged())

    return ids
