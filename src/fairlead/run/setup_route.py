"""`GET /api/v1/setup`: what is connected to this server. For support and administrators; others are refused.

Not here: what is made of settings and lake (`questions.setup`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import fairlead
from fairlead.core.errors import FairleadError
from fairlead.explain.questions.answers_setup import Setup
from fairlead.explain.questions.setup import ServerSettings, list_setup_steps
from fairlead.explain.questions.setup_facts import inspect_lake_setup
from fairlead.run.config import Config
from fairlead.show.web.api.endpoint import Operation
from fairlead.show.web.identity import READ, Door, RefusedError, require_identity_scope
from fairlead.store.lake import Lake

PATH = "/api/v1/setup"
OPERATIONS = (
    Operation(
        method="GET",
        path="setup",
        answer=Setup,
        tag="server",
        about="What is connected and what is not, each with the command that connects it.",
    ),
)


def _describe_settings(config: Config, *, accounts: int | None = None) -> ServerSettings:
    """What the settings (resolved) say."""
    web, feeds = config.web, config.feeds
    ways = [
        name
        for name, on in (
            ("accounts of this server", web.local),
            ("directory", bool(web.ldap.url)),
            ("single sign-on", bool(web.oidc.issuer)),
            ("portal", bool(web.header.name)),
        )
        if on
    ]
    return ServerSettings(
        version=fairlead.__version__,
        state=Path(config.server.state).name,
        collector=_bound(config, "collector", config.collector.listen),
        api=_bound(config, "api", config.api.listen),
        tls=any(one.startswith("tls:") for one in config.collector.listen + config.api.listen),
        simulated=web.simulated,
        analysis=config.analysis.on,
        feeds={
            "slurm": len(feeds.slurm),
            "job_table": len(feeds.job_table),
            "scrape": len(feeds.scrape),
            "remote_write": int(feeds.remote_write.enabled),
            "drop": len(feeds.drop),
            "darshan": len(feeds.darshan),
        },
        site=bool(config.server.site),
        alert_routes=len(config.alerts.routes),
        ways=ways if web.on else (),
        accounts=accounts,
    )


class _Addresses(msgspec.Struct):
    collector: list[str]
    api: list[str]


def _bound(config: Config, name: str, wanted: list[str]) -> list[str]:
    """Addresses as they are listened on (a port may have been any); of a socket in a folder only its name."""
    try:
        told = msgspec.json.decode((Path(config.server.state) / "addresses.json").read_bytes(), type=_Addresses)
        wanted = getattr(told, name)
    except (OSError, msgspec.DecodeError):
        pass
    return [f"unix:{Path(one).name}" if one.startswith("unix:") else one for one in wanted]


def _count_accounts(state: Path) -> int | None:
    """How many accounts there are; None where that cannot be told."""
    from fairlead.show.web.people.accounts import list_accounts
    from fairlead.show.web.people.store import Store

    try:
        with Store(state) as store:
            return len(list_accounts(store))
    except (FairleadError, OSError):
        return None


def build_setup_routes(
    config: Config, door: Door, clock: Callable[[], int], lake: Lake | None = None
) -> list[BaseRoute]:
    """The route. `config` is resolved."""

    def told() -> Setup:
        now_ns = clock()
        known = _describe_settings(config, accounts=_count_accounts(Path(config.server.state)))
        return list_setup_steps(known, inspect_lake_setup(Path(config.server.lake), now_ns, lake), now_ns)

    async def answer(request: Request) -> Response:
        person = door.identify_person(request)  # in the loop's thread, which the door's file is read in
        require_identity_scope(person, READ)
        if not person.sight.everything:
            raise RefusedError(
                403, "connections of the server are shown to support and administrators only", "ask one of them"
            )
        return Response(
            msgspec.json.encode(await run_in_threadpool(told)),
            media_type="application/json",
            headers={"cache-control": "no-store", "vary": "Authorization, Cookie"},
        )

    return [Route(PATH, answer, methods=["GET"])]
