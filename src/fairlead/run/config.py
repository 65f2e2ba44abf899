"""The settings of `fairlead up`: one TOML file into strict structs; default < file < environment < flag.

Where each is from is known; a key that does not exist or a value of the wrong kind is named with its path. Not here:
what a setting does.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.core.errors import ConfigError, InputError
from fairlead.core.model.tables import TABLES
from fairlead.explain.diagnosing.diagnosis_settings import Diagnosis
from fairlead.run.whatif.settings import WhatIfSettings
from fairlead.see.collector.feeds import Feeds
from fairlead.see.collector.listen_address import parse_listen_address
from fairlead.see.collector.settings import Carry, Collector
from fairlead.show.alerts.alert_settings import Alerts
from fairlead.show.alerts.alert_settings import check_alert_settings as checked_alerts
from fairlead.show.web import web_settings as web_settings
from fairlead.store.lake_folder import check_shard_folder, find_default_lake_folder
from fairlead.store.retention import Policy

PREFIX = "FAIRLEAD"
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?:\.(?P<path>[^`]*))?`)?$")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_TABLES = ("keep.tables", "alerts.routes", "alerts.rules", *web_settings.TABLES)
COLLECTOR_PORT = 8571
API_PORT = 8572


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`: where everything lies."""

    lake: str = ""
    """Folder of the lake. Empty: `$FAIRLEAD_LAKE`, else `fairlead/lake` in the user's data folder."""
    state: str = ""
    """Folder of keys, tokens and sockets that are made when none are given. Empty: the one the lake is in."""
    memory: str = "1GB"
    """What queries of one process may use."""
    site: str = ""
    """The site file (`fairlead site init`): forwarders, targets and who is served by whom. Empty: none."""


class Api(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[api]`: where questions are answered, in a process of its own."""

    on: bool = True
    """Whether there is such a process."""
    listen: list[str] = []
    """Addresses as those of the collector. Empty: `tcp:127.0.0.1:8572`."""
    longest_days: int = 400
    """A question is of at most so long a span."""
    at_once: int = 4
    """Questions worked on at the same time."""
    waiting: int = 256
    """Questions that may wait for one of these; more: 429."""
    wait_s: float = 10.0
    """How long one waits, then 503."""
    answer_s: float = 20.0
    """How long one is worked on, then 503."""
    user_at_once: int = 3
    """Of `at_once`, how many one token or session may hold."""
    user_waiting: int = 32
    """Of `waiting`, how many may be of one token or session."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[analysis]`: the loop that summarises jobs that ended, in a process of its own."""

    on: bool = True
    """Whether there is such a process."""
    shard: str = "analysis"
    """Shard of the lake it writes."""
    every_s: float = 30.0
    """Time between two rounds."""
    running_s: float = 600.0
    """A job that runs is summarised again after this time, at the earliest."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    server: Server = Server()
    collector: Collector = Collector()
    carry: Carry = Carry()
    keep: Policy = Policy()
    """`[keep]`: days each kind of record is kept; 0: for ever."""
    api: Api = Api()
    analysis: Analysis = Analysis()
    diagnosis: Diagnosis = Diagnosis()
    whatif: WhatIfSettings = WhatIfSettings()
    feeds: Feeds = Feeds()
    alerts: Alerts = Alerts()
    web: web_settings.Web = web_settings.Web()


Origins = dict[str, str]
"""Where a setting (by its dotted path) is from; what is not in it is a default."""


def load_config(
    file: Path | None, *, environment: Mapping[str, str] = os.environ, flags: Sequence[str] = ()
) -> tuple[Config, Origins]:
    """Settings from a file (None: none), the environment (`FAIRLEAD_COLLECTOR_LISTEN=...`) and flags
    (`collector.listen=...`). Raises InputError when the file cannot be read, ConfigError."""
    origins: Origins = {}
    raw: dict[str, Any] = {}
    if file is not None:
        raw = _read(file)
        _decoded(raw, str(file))
        origins.update((path, str(file)) for path in _leaves(raw))
    names = {f"{PREFIX}_{path.upper().replace('.', '_')}": path for path in list_config_paths()}
    for name in sorted(environment):
        if name in names:
            _put(raw, names[name], environment[name], name)
            origins[names[name]] = f"environment {name}"
        elif name.startswith(tuple(f"{PREFIX}_{part.upper()}_" for part in Config.__struct_fields__)):
            raise ConfigError("unknown setting", where=name, remedy="fairlead up --show-config lists them")
    for flag in flags:
        path, equals, text = flag.partition("=")
        if not equals or path not in names.values():
            raise ConfigError("unknown setting", where=f"--set {flag}", remedy="fairlead up --show-config lists them")
        _put(raw, path, text, f"--set {path}")
        origins[path] = "flag"
    return _checked(_decoded(raw, str(file or "settings"))), origins


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(file), remedy="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(file)) from error


def _decoded(raw: Mapping[str, Any], where: str) -> Config:
    try:
        return msgspec.convert(raw, Config)
    except msgspec.ValidationError as error:
        raise _named(str(error), where) from error


def _named(message: str, where: str) -> ConfigError:
    """msgspec's complaint with the path of the setting in front."""
    match = _PLACE.match(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    unknown = _UNKNOWN.search(what)
    if unknown:
        key = ".".join(part for part in (path, unknown[1]) if part)
        return ConfigError(
            f"there is no setting {key!r}", where=where, remedy="fairlead up --show-config lists them all"
        )
    return ConfigError(f"{path}: {what[:1].lower()}{what[1:]}", where=where, remedy="docs: reference/server-config")


def list_config_paths() -> list[str]:
    """Paths of all settings that are no tables of tables: those an environment variable or a flag can give."""
    return [path for path, _ in _fields(Config) if not path.startswith("feeds.") and path not in _TABLES]


def _fields(kind: type[msgspec.Struct], before: str = "") -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(kind):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _fields(inner, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}", inner


def _leaves(raw: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def _put(raw: dict[str, Any], path: str, text: str, where: str) -> None:
    kinds: dict[str, Any] = dict(_fields(Config))
    kind = kinds[path]
    value: Any = [part for part in text.split(",") if part] if kind == list[str] else text
    try:
        value = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {str(error)[:1].lower()}{str(error)[1:]}", where=where) from error
    *tables, name = path.split(".")
    for table in tables:
        raw = raw.setdefault(table, {})
    raw[name] = value


def _checked(config: Config) -> Config:
    """What the kinds alone do not say. Raises ConfigError."""
    for path, value in _values(msgspec.to_builtins(config)):
        if isinstance(value, int | float) and not isinstance(value, bool) and (value < 0 or value != value):
            raise ConfigError(f"{path}: {value} is below zero", where=path)
    for part, addresses in (("collector", config.collector.listen), ("api", config.api.listen)):
        for address in addresses:
            place = parse_listen_address(address, where=f"{part}.listen")
            if place.tls and not (config.collector.tls_certificate and config.collector.tls_key):
                raise ConfigError(
                    f"{address} needs a certificate",
                    where=f"{part}.listen",
                    remedy="set collector.tls_certificate and collector.tls_key",
                )
    if bool(config.collector.tls_certificate) != bool(config.collector.tls_key):
        raise ConfigError("a certificate needs its key", where="collector.tls_certificate", remedy="give both")
    shards = (config.collector.shard, config.analysis.shard)
    for path, shard in zip(("collector.shard", "analysis.shard"), shards, strict=True):
        try:
            check_shard_folder(shard)
        except Exception as error:
            raise ConfigError(str(error), where=path) from error
    if shards[0] == shards[1]:
        raise ConfigError(
            "two processes cannot write to the same shard", where="analysis.shard", remedy="give it another name"
        )
    for path, value in (
        ("carry.every_s", config.carry.every_s),
        ("analysis.every_s", config.analysis.every_s),
        ("analysis.running_s", config.analysis.running_s),
        ("diagnosis.every_s", config.diagnosis.every_s),
        ("diagnosis.system_every_s", config.diagnosis.system_every_s),
    ):
        if value < 0.05:
            raise ConfigError(f"{value} s is too short", where=path)
    for path, value in (("confidence", config.diagnosis.confidence), ("share", config.diagnosis.share)):
        if value > 1:
            raise ConfigError(f"{value} is above 1", where=f"diagnosis.{path}", remedy="give a share from 0 to 1")
    checked_alerts(config.alerts)
    web_settings.check_web_settings(config.web)
    for name in config.keep.tables:
        if name not in TABLES:
            raise ConfigError(
                f"there is no table {name!r}", where=f"keep.tables.{name}", remedy=f"one of {', '.join(TABLES)}"
            )
    return config


def _values(raw: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves, those of a table before its tables: so they can be written as TOML in this order."""
    for name, value in raw.items():
        if not isinstance(value, dict):
            yield f"{before}{name}", value
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from _values(value, f"{before}{name}.")


def resolve_config(config: Config) -> Config:
    """`config` with every folder, file and address said outright. Nothing is made."""
    lake = Path(config.server.lake) if config.server.lake else find_default_lake_folder()
    state = Path(config.server.state) if config.server.state else lake.absolute().parent
    replace = msgspec.structs.replace
    collector = config.collector
    listen = collector.listen or [f"unix:{state / 'server.sock'}", f"tcp:127.0.0.1:{COLLECTOR_PORT}"]
    return replace(
        config,
        server=replace(config.server, lake=str(lake.absolute()), state=str(state)),
        collector=replace(
            collector,
            listen=listen,
            token_key=collector.token_key or str(state / "server.key"),
        ),
        api=replace(config.api, listen=config.api.listen or [f"tcp:127.0.0.1:{API_PORT}"]),
    )


def build_config_policy(policy: Policy) -> Policy:
    """The policy with 0 as for ever, as files say it: TOML has no null."""
    fields = {name: getattr(policy, name) or None for name in policy.__struct_fields__ if name != "tables"}
    tables = {name: days or None for name, days in policy.tables.items()}
    return Policy(**fields, tables=tables)


def format_config(config: Config, origins: Origins, *, with_origin: bool) -> str:
    """All settings as TOML; with `with_origin` each line says where its value is from."""
    lines: list[str] = []
    table = ""
    for path, value in _values(msgspec.to_builtins(config)):
        head, _, name = path.rpartition(".")
        if head != table:
            lines += ["", f"[{head}]"]
            table = head
        origin = f"  # {origins.get(path, 'default')}" if with_origin else ""
        lines.append(f"{name} = {_toml(value)}{origin}")
    return "\n".join(lines).lstrip("\n")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items() if one is not None)
        return f"{{ {inside} }}"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return "0" if value is None else repr(value)
