"""The TOML file behind `targets:FILE`: where the metadata is, which targets there are, how files are laid out.

Strict: an unknown key, a wrong unit or a pool nobody is in is a `ConfigError` that names it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairlead.core.errors import ConfigError

PLACEMENTS = ("least-open", "round-robin", "weighted-random")
MAX_STRIPES = 64
MIN_STRIPE = 4096
MAX_STRIPE = 1 << 40
DEFAULT_STRIPE = 1 << 20
_PAGE = "see docs/reference/targets-layout.md"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKMGT]?)(?:i?B)?\Z")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory that holds objects. `max_perf` is a text such as `500M` (bytes/s) or a number."""

    name: str
    path: str
    max_perf: str | int | None = None
    pool: str | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How new files are striped where no directory says otherwise."""

    stripe_count: int = 1
    stripe_size: str | int = DEFAULT_STRIPE
    pool: str | None = None
    placement: str = "least-open"


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of `store` (a directory on a local disk) and `service` (an address of `fairlead tree serve-metadata`)."""

    store: str | None = None
    service: str | None = None
    token_file: str | None = None
    ca_file: str | None = None
    map_size: str | int = 64 << 30


class TargetsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    metadata: Metadata
    targets: list[Target]
    layout: Layout = Layout()


class Striping(NamedTuple):
    """A layout in numbers: stripes (0: all targets of the pool), bytes of a stripe, pool or None."""

    stripes: int
    size: int
    pool: str | None


def parse_config_size(text: str | int) -> int:
    """`500M` → 524288000 (powers of 1024); a number stands for bytes. ValueError otherwise."""
    if isinstance(text, int):
        return text
    match = _SIZE.match(text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(float(match[1]) * 1024 ** _POWERS[match[2]])


def _key_bytes(key: str, text: str | int) -> int:
    """The size a key of the file has; ValueError names the key."""
    try:
        return parse_config_size(text)
    except ValueError as fault:
        raise ValueError(f"{key}: {fault}") from fault


def parse_config_layout(text: str, default: Striping, pools: set[str]) -> Striping:
    """`count=4,size=1M,pool=fast` over the default; ValueError says what is wrong."""
    count, size, pool = default
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, sign, value = part.partition("=")
        if not sign:
            raise ValueError(f"{part!r} is not key=value")
        if key == "count":
            if not value.isdecimal():
                raise ValueError(f"count={value}: not a number")
            count = int(value)
        elif key == "size":
            size = parse_config_size(value)
        elif key == "pool":
            pool = value or None
        else:
            raise ValueError(f"{key!r} is none of count, size, pool")
    _check(count, size, pool, pools)
    return Striping(count, size, pool)


def _check(count: int, size: int, pool: str | None, pools: set[str]) -> None:
    if not 0 <= count <= MAX_STRIPES:
        raise ValueError(f"stripe count {count}: 1 to {MAX_STRIPES}, or 0 for all targets of the pool")
    if size < MIN_STRIPE or size % MIN_STRIPE:
        raise ValueError(f"stripe size {size}: not a multiple of {MIN_STRIPE}")
    if size > MAX_STRIPE:
        raise ValueError(f"stripe size {size}: more than 1T")
    if pool is not None and pool not in pools:
        raise ValueError(f"no target is in the pool {pool!r}")


def build_config_striping(config: TargetsFile) -> Striping:
    """The layout of the file in numbers."""
    layout = config.layout
    return Striping(layout.stripe_count, parse_config_size(layout.stripe_size), layout.pool)


def list_config_pools(config: TargetsFile) -> set[str]:
    """Names of the pools targets are in."""
    return {target.pool for target in config.targets if target.pool is not None}


def read_config(path: str | Path) -> TargetsFile:
    """Reads and checks the file. Relative paths in it are taken from its folder."""
    where = Path(path)
    try:
        raw = tomllib.loads(where.read_text(encoding="utf-8"))
    except OSError as fault:
        what = fault.strerror or str(fault)
        raise ConfigError(f"cannot be read: {what}", where=str(where), remedy="check the path") from fault
    except UnicodeDecodeError as fault:
        raise ConfigError("not UTF-8 text", where=str(where), remedy=_PAGE) from fault
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"not TOML: {fault}", where=str(where), remedy=_PAGE) from fault
    return _checked(raw, where)


def _checked(raw: dict[str, Any], where: Path) -> TargetsFile:
    try:
        config = msgspec.convert(raw, TargetsFile)
        _check_metadata(config.metadata)
        _check_targets(config.targets)
        _key_bytes("layout.stripe_size", config.layout.stripe_size)
        if config.layout.placement not in PLACEMENTS:
            raise ValueError(f"placement {config.layout.placement!r}: one of {', '.join(PLACEMENTS)}")
        _check(*build_config_striping(config), list_config_pools(config))
    except (msgspec.ValidationError, ValueError) as fault:
        raise ConfigError(str(fault), where=str(where), remedy=_PAGE) from fault
    base = where.resolve().parent
    metadata = config.metadata
    return TargetsFile(
        metadata=msgspec.structs.replace(
            metadata,
            store=str(base / metadata.store) if metadata.store is not None else None,
            token_file=str(base / metadata.token_file) if metadata.token_file is not None else None,
            ca_file=str(base / metadata.ca_file) if metadata.ca_file is not None else None,
        ),
        targets=[msgspec.structs.replace(target, path=str(base / target.path)) for target in config.targets],
        layout=config.layout,
    )


def _check_metadata(metadata: Metadata) -> None:
    if (metadata.store is None) == (metadata.service is None):
        raise ValueError("[metadata] needs one of `store` and `service`")
    if _key_bytes("metadata.map_size", metadata.map_size) < 1 << 20:
        raise ValueError("map_size is less than 1M")


def _check_targets(targets: list[Target]) -> None:
    if not targets:
        raise ValueError("no [[targets]]")
    names: set[str] = set()
    paths: set[str] = set()
    for target in targets:
        if not _NAME.match(target.name):
            raise ValueError(f"target name {target.name!r}: letters, digits, `_`, `.`, `-`")
        if target.name in names:
            raise ValueError(f"two targets are called {target.name!r}")
        if target.path in paths:
            raise ValueError(f"two targets have the path {target.path!r}")
        if target.max_perf is not None and _key_bytes(f"max_perf of {target.name!r}", target.max_perf) <= 0:
            raise ValueError(f"max_perf of {target.name!r} is not positive")
        names.add(target.name)
        paths.add(target.path)
