"""A site as TOML with remarks: what `fairlead site init` writes. Not here: finding out (`site_discovery`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from fairlead.core.model.site_file import SiteFile
from fairlead.core.safe_text import escape_text

_PARTS = {
    "nodes": "Nodes by class of clients. `kind`: compute, login or auxiliary.",
    "forwarders": "Forwarding nodes. None: the nodes of the site mount the file systems directly.",
    "routes": "Which nodes which forwarders serve; `since` and `until` if it has changed.",
    "file_systems": "File systems, their servers and targets.",
    "addresses": "Network addresses (NIDs) and their nodes, in the same order.",
    "links": "Switch ports and the nodes connected to them, in the same order.",
    "burst_buffers": "Devices that nodes write to before the file system.",
}


def format_site_text(site: SiteFile, remarks: Mapping[str, Sequence[str]]) -> str:
    """TOML that `core.model.site_file` reads back as `site`; remarks stand as comments at their part."""
    lines = [
        "# The site as fairlead found it. `fairlead site check` reports inconsistencies.",
        f"name = {_value(site.name)}",
    ]
    for part, says in _PARTS.items():
        lines += ["", f"# {says}", *(f"# Not found out: {escape_text(remark)}" for remark in remarks.get(part, ()))]
        for item in getattr(site, part):
            lines += _table(part, item)
    return "\n".join(lines) + "\n"


def _table(path: str, item: msgspec.Struct) -> Iterator[str]:
    yield f"[[{path}]]"
    inner: list[tuple[str, msgspec.Struct]] = []
    for name in item.__struct_fields__:
        value = getattr(item, name)
        default = next(f.default for f in msgspec.structs.fields(item) if f.name == name)
        if isinstance(value, list):
            inner += [(f"{path}.{name}", one) for one in value]
        elif value is not None and value != default:
            yield f"{name} = {_value(value)}"
    for below, one in inner:
        yield from _table(below, one)


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    # JSON's strings, numbers and booleans are TOML's too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
