"""What is connected to a server and what is not: the answer of `GET /api/v1/setup`. Null is *not known*, never zero."""

from __future__ import annotations

from typing import Literal

from fairlead.explain.questions.answers import Answer

Connected = Literal["connected", "quiet", "not"]


class SetupPart(Answer, frozen=True, kw_only=True):
    """One thing that can be connected. `state`: connected, quiet (it was; `last_ns` is when it was heard last) or not.
    `command`: what to type next, empty where nothing is left to do; `docs`: the page that says more."""

    key: str
    group: str
    """server, watching, feeds, site or people."""
    title: str
    state: Connected
    what: str
    """What is there, or why nothing is, in a sentence."""
    last_ns: int | None = None
    count: int | None = None
    command: str = ""
    docs: str = ""


class Setup(Answer, frozen=True, kw_only=True):
    """Everything that can be connected. `first_run`: nothing was recorded yet."""

    schema: str = "fairlead.setup/1"
    now_ns: int
    version: str
    simulated: bool
    first_run: bool
    connected: int
    quiet: int
    missing: int
    parts: list[SetupPart]
