"""A noun of the command line, and the error for a command that has another name now.

Not here: the table of commands (`main`), the verbs (one module per noun).
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import click

from fairlead.core.errors import UsageError

RENAMED: dict[str, str] = {
    "agent": "agent run",
    "alerts": "alert",
    "alerts rules": "alert check",
    "analyse": "history",
    "analyse factors": "history explain",
    "analyse findings": "history diagnose",
    "analyse jobs": "history summarise",
    "analyse population": "history describe",
    "behaviour": "job behaviour",
    "doctor": "host check",
    "explain": "finding show",
    "findings": "finding list",
    "forwarder": "forwarder run",
    "forwarders": "forwarder list",
    "forwarders NAME": "forwarder show",
    "health": "component list",
    "health NAME": "component show",
    "job": "job show",
    "jobs": "job list",
    "mds": "mds show",
    "metadata": "tree serve-metadata",
    "mounts": "mount --list",
    "node": "node show",
    "rules": "rule",
    "status": "server status",
    "system": "system show",
    "system --devices": "system devices",
    "system --health": "probe list",
    "system --network": "system network",
    "system --space": "system space",
    "target": "target list",
    "target --cdf": "target utilisation",
    "target NAME": "target show",
    "targets": "tree",
    "targets list": "tree show",
    "token key": "token make-key",
    "why": "job explain",
}
"""Words of earlier versions → the words now, both without `fairlead`. NAME stands for any name."""


def _find_new_words(words: Sequence[str]) -> str:
    """Return what replaced the command `words`; "" if it never existed.

    Example: `_find_new_words(["targets", "check"])` is "tree check".
    """
    first, rest = words[0], words[1:]
    keys = [f"{first} {word}" for word in rest]
    keys += [f"{first} NAME"] if rest and not rest[0].startswith("-") else []
    new = next((RENAMED[key] for key in [*keys, first] if key in RENAMED), "")
    verb = rest[0] if rest and new and " " not in new and not rest[0].startswith("-") else ""
    return f"{new} {verb}".strip()


def build_unknown_noun_error(before: Sequence[str], words: Sequence[str], known: Sequence[str]) -> UsageError:
    """Return the error for `words`, of which the first is no command after `before`.

    It names a `known` command that is spelt alike, else the words that replaced these.
    """
    path = " ".join(["fairlead", *before])
    what = f"there is no command {' '.join([*before, words[0]])!r}"
    near = get_close_matches(words[0], known, n=1, cutoff=0.75)
    new = _find_new_words([*before, *words])
    if new and not (near and before and not words[0].startswith("-")):
        return UsageError(what, remedy=f"it is now: fairlead {new}")
    return UsageError(what, remedy=f"perhaps: {path} {near[0]}" if near else f"{path} --help")


class Noun(click.Group):
    """A noun: its verbs are its commands, and it takes no options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what is not a verb. Raises UsageError, which names the verb that replaced an older form."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            before = ctx.command_path.split()[1:]
            raise build_unknown_noun_error(before, args, list(self.commands))
        return super().parse_args(ctx, args)
