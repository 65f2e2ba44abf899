"""Extension points: built-ins by `module:name`, and what a site adds through entry points, loaded when asked for.

A plug-in that fails ends what it was asked for, never the run, and the error names its package. Not here: which
built-ins there are (each room has a table).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import getattr_static
from pathlib import Path
from typing import Any

from fairlead.core.errors import FairleadError, PluginError

KINDS: dict[str, str] = {
    "fairlead.sources": "source",
    "fairlead.probes": "probe",
    "fairlead.policies": "policy",
    "fairlead.path_policies": "path policy",
    "fairlead.placements": "placement",
    "fairlead.request_orders": "request order",
    "fairlead.predictors": "predictor",
    "fairlead.rules": "rules",
    "fairlead.questions": "question",
    "fairlead.pages": "page",
    "fairlead.trees": "tree",
}
"""Entry-point group → what one of it is called."""
OWN = "fairlead"
_LOG = logging.getLogger("fairlead.plugins")
_REPORTED: set[str] = set()


def load_extension_object(target: str) -> object:
    """The object named `module:name`; its module is imported now."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@cache
def find_extensions(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group of `KINDS` by name, not loaded."""
    return {entry.name: entry for entry in entry_points(group=group)}


def describe_extension_package(entry: EntryPoint) -> str:
    """Name and version of the package an entry point is from: `site-queue 1.0`."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module.partition(".")[0]


def load_extension(group: str, name: str) -> Any:
    """Load what the entry point `name` of `group` refers to. Raises KeyError when there is none of that name,
    PluginError when it cannot be loaded."""
    entry = find_extensions(group)[name]
    try:
        return entry.load()
    except Exception as fault:
        raise build_extension_defect(group, name, fault) from fault


def load_extensions(group: str, known: Iterable[str] = ()) -> tuple[dict[str, Any], list[PluginError]]:
    """Load every plug-in of `group` whose name is not in `known` (built-ins win), and the errors of those that fail."""
    loaded: dict[str, Any] = {}
    faults: list[PluginError] = []
    for name in sorted(find_extensions(group).keys() - set(known)):
        try:
            loaded[name] = load_extension(group, name)
        except PluginError as fault:
            faults.append(fault)
    return loaded, faults


def report_extension_faults(faults: Iterable[PluginError]) -> None:
    """Log each fault as an error, once in a process: without logging set up it goes to stderr. The run goes on."""
    for fault in faults:
        if fault.what not in _REPORTED:
            _REPORTED.add(fault.what)
            _LOG.error("%s; it is left out", fault.what)


def make_extension(group: str, name: str, *arguments: object) -> Any:
    """Load a plug-in, call it with `arguments`, and guard what it returns. Raises KeyError, PluginError."""
    factory = load_extension(group, name)

    def explain(fault: Exception, called_with: tuple[Any, ...]) -> FairleadError:  # noqa: ARG001
        return build_extension_defect(group, name, fault)

    try:
        return Guarded(factory(*arguments), explain)
    except FairleadError:
        raise
    except Exception as fault:
        raise build_extension_defect(group, name, fault) from fault


def find_extension_maker(group: str, name: str) -> Callable[..., Any]:
    """What makes a plug-in when it is called, as `make_extension`. Raises KeyError when there is none of that name."""
    if name not in find_extensions(group):
        raise KeyError(name)
    return partial(make_extension, group, name)


def build_extension_defect(group: str, name: str, fault: Exception) -> PluginError:
    """Return the error that says whose defect `fault` is.

    `defect of the policy 'halves' (package site-halves 1.0): TypeError: ... (site_halves/__init__.py:12)`
    """
    entry = find_extensions(group).get(name)
    package = describe_extension_package(entry) if entry is not None else OWN
    return PluginError(
        describe_extension_defect(group, name, package, fault), remedy=f"report it to the authors of {package}"
    )


def describe_extension_defect(group: str, name: str, package: str, fault: Exception) -> str:
    """One clause that names the plug-in, its package, the exception and the line that raised it."""
    owner = package if package == OWN else f"package {package}"
    frames = traceback.extract_tb(fault.__traceback__)
    place = ""
    if frames and frames[-1].filename != __file__:
        path = Path(frames[-1].filename)
        place = f" ({path.parent.name}/{path.name}:{frames[-1].lineno})"
    what = " ".join(str(fault).split())[:300]
    text = f"{type(fault).__name__}: {what}" if what else type(fault).__name__
    return f"error in the {KINDS[group]} {name!r} ({owner}): {text}{place}"


Explain = Callable[[Exception, tuple[Any, ...]], FairleadError]
"""Exception, arguments of the call → the error raised instead."""
PASSING: tuple[type[Exception], ...] = (FairleadError, OSError, MemoryError)
"""What a plug-in may raise: these are not defects."""


def guard_extension_function(
    function: Callable[..., Any], explain: Explain, passing: tuple[type[Exception], ...] = ()
) -> Callable[..., Any]:
    """`function`, whose exceptions become what `explain` returns; those of `PASSING` and `passing` stay."""

    allowed = PASSING + passing

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except allowed:
            raise
        except Exception as fault:
            raise explain(fault, arguments) from fault

    return call


class Guarded:
    """A plug-in behind the interface it has: what its methods raise becomes the error that `explain` returns.

    `_check_item` sees every item a method yields.
    """

    def __init__(
        self,
        inner: object,
        explain: Explain,
        check_item: Callable[[object], None] | None = None,
    ) -> None:
        self._inner = inner
        self._explain = explain
        self._check_item = check_item
        # Attributes of the instance: isinstance() with a runtime protocol sees nothing behind __getattr__.
        for name in dir(inner):
            if name[0] != "_" and not isinstance(getattr_static(inner, name), property):
                value = getattr(inner, name)
                setattr(self, name, self._wrap(value) if callable(value) else value)

    def replace_fields(self, **fields: object) -> Guarded:
        """The same guard around a copy with other fields, where the plug-in is a dataclass that has them; else self."""
        inner: Any = self._inner
        if not is_dataclass(inner) or not all(hasattr(inner, name) for name in fields):
            return self
        return Guarded(replace(inner, **fields), self._explain, self._check_item)  # type: ignore[type-var]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        guarded = guard_extension_function(method, self._explain)

        def call(*arguments: Any, **options: Any) -> Any:
            result = guarded(*arguments, **options)
            return self._iterate(result, arguments) if isinstance(result, Iterator) else result

        return call

    def _iterate(self, items: Iterator[Any], arguments: tuple[Any, ...]) -> Iterator[Any]:
        try:
            for item in items:
                if self._check_item is not None:
                    self._check_item(item)
                yield item
        except PASSING:
            raise
        except Exception as fault:
            raise self._explain(fault, arguments) from fault
        finally:
            if hasattr(items, "close"):
                items.close()
