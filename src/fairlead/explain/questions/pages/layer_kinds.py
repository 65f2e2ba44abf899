"""The layers a page can be about: which components they are made of, what their load is counted in, what is full load.

Not here: what is told of them (`layer`, `machine_now`).
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.core.errors import UsageError
from fairlead.explain.questions import load_distributions
from fairlead.explain.questions.question import Asking
from fairlead.explain.questions.span import HOUR_NS, Span


@dataclass(frozen=True)
class LayerKind:
    """`kind` and `counted` of its rows in the rollup. Ids that contain `hidden` are not of it."""

    name: str
    kind: str
    counted: str
    unit: str = "bytes/s"
    hidden: str = ""

    def is_shown(self, component: str) -> bool:
        """Whether an id is a component of this layer: LNet's sums over interfaces and the room on a node's file systems
        are none."""
        return not self.hidden or self.hidden not in component


LAYERS = {
    one.name: one
    for one in (
        LayerKind("forwarder", "forwarder", "forwarder"),
        LayerKind("target", "target", "target"),
        LayerKind("mds", "mds", "metadata", "operations/s"),
        LayerKind("network", "port", "port", hidden="/lnet"),
        LayerKind("device", "device", "device", hidden=":/"),
    )
}
"""By name, from the clients to the devices."""


def find_layer(name: str) -> LayerKind:
    """The layer. Raises UsageError for one that is none."""
    if name not in LAYERS:
        raise UsageError(f"no layer {name!r}", remedy=f"one of {', '.join(LAYERS)}")
    return LAYERS[name]


def find_layer_full_load(
    asking: Asking, layer: LayerKind, span: Span, now_ns: int, given: float | None = None
) -> tuple[float | None, str]:
    """What is full load of one component, and how that is known: given, or the highest that was seen in a week."""
    known = given or asking.peaks.get(layer.kind)
    if known:
        return known, "given"
    seen = load_distributions.find_highest_load(asking.lake, span.align_to(HOUR_NS), asking.kept, now_ns, layer.kind)
    return seen, "highest seen"
