"""Everything the API process serves, put together of the settings: people, questions, actions, what-if, pages.

Not here: the process and its sockets (`child_process`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from fairlead.core.clock import now_ns
from fairlead.explain.diagnosing.site_file import read_site_file_facts
from fairlead.explain.questions.question import Asking
from fairlead.run import server_route
from fairlead.run import setup_route as setup
from fairlead.run.config import Config, build_config_policy
from fairlead.run.whatif import routes as whatif_routes
from fairlead.run.whatif.queue import build_whatif_queue
from fairlead.show.alerts import alert_routes as alerts
from fairlead.show.web import site_pages
from fairlead.show.web.api import job_export
from fairlead.show.web.api.app import build_api_app
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.api.settings import ApiSettings
from fairlead.show.web.pages import serving
from fairlead.show.web.signin.sign_in_app import build_sign_in_app
from fairlead.store.lake import Lake


@dataclass(frozen=True)
class ApiApplication:
    """`app` is served; `described`: its operations besides the questions; `close` ends what works beside it."""

    app: Starlette
    described: Sequence[Operation]
    close: Callable[[], None]


def assemble_api_application(
    config: Config, key: bytes, lake: Lake, *, clock: Callable[[], int] = now_ns
) -> ApiApplication:
    """The application of a server with these (resolved) settings; `clock` tells the time (epoch ns).

    Raises ConfigError, LakeError, MissingDependencyError."""
    settings = ApiSettings(
        key=key,
        longest_days=config.api.longest_days,
        at_once=config.api.at_once,
        waiting=config.api.waiting,
        wait_s=config.api.wait_s,
        answer_s=config.api.answer_s,
        user_at_once=config.api.user_at_once,
        user_waiting=config.api.user_waiting,
    )
    asking = Asking(lake, facts=read_site_file_facts(config.server.site))
    state = Path(config.server.state)
    people = build_sign_in_app(state, config.web, key, lake, wall=clock)
    asking.keep = build_config_policy(config.keep)
    asking.acknowledged = alerts.read_acknowledged_alert_ids(state)
    more = [
        *people.routes,
        *alerts.build_alert_routes(state, config.alerts, lake, people.door, clock, noted=people.noted),
        *job_export.build_job_export_routes(asking, settings, people.door, clock),
        *setup.build_setup_routes(config, people.door, clock, lake),
        *server_route.build_server_routes(config, key, people.door, clock),
        *site_pages.build_site_page_routes(asking, settings, people.door, clock),
    ]
    described = [*people.described, *alerts.OPERATIONS, *job_export.OPERATIONS]
    described += [*setup.OPERATIONS, *server_route.OPERATIONS]
    replays = build_whatif_queue(config)
    if replays is not None:
        replays.start()
        described += whatif_routes.OPERATIONS
        more += whatif_routes.build_whatif_routes(replays, people.door, noted=people.noted)
    app = build_api_app(
        asking,
        settings,
        clock=clock,
        door=people.door,
        more=[*more, *serving.build_page_serving_routes()],
        guards=people.guards,
        described=described,
        followed={"whatif": whatif_routes.build_whatif_follower(replays)} if replays else {},
    )

    def close() -> None:
        if replays is not None:
            replays.close()
        people.close()

    return ApiApplication(app, described, close)
