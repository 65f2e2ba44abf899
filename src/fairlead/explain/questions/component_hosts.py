"""On which machine a component lives, so that it can be told whether anybody watched it there.

Not here: what that machine's agent said (`coverage`, `load_distributions`).
"""
# ruff: noqa: S608  (conditions are numbers and words of ours; what others say goes in as parameters)

from __future__ import annotations

from collections.abc import Sequence

from fairlead.explain.questions.components import SERVED_BY
from fairlead.explain.questions.lake_queries import Tables, query_lake
from fairlead.explain.questions.span import Span

SERVED = ("target", "mds")


def find_component_hosts(lake: Tables, kind: str, names: Sequence[str], span: Span) -> dict[str, str]:
    """Component → machine, of those of which it is known: forwarders and nodes are their own, devices are named by
    theirs, targets are mapped to their servers. A port's switch has no agent."""
    if kind in ("forwarder", "node"):
        return {name: name for name in names}
    if kind == "device":
        return {name: name.partition("/")[0] for name in names}
    if kind not in SERVED or not names:
        return {}
    found = query_lake(
        lake,
        "SELECT a, arg_max(b, from_ns) AS b FROM mapping WHERE kind IN (SELECT unnest($kinds)) AND a IN"
        f" (SELECT unnest($names)) AND from_ns < {span.to_ns} AND (to_ns IS NULL OR to_ns > {span.from_ns}) GROUP BY a",
        {"kinds": list(SERVED_BY), "names": list(names)},
    )
    mapped = dict(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    # A metadata server without targets of their own names is counted under its own.
    return {name: mapped.get(name, name) for name in names if name in mapped or kind == "mds"}
