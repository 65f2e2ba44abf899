"""What the agent is told: options over a file of `key = value` lines. Not here: acting on it (`run`).

Read by hand: argparse and configparser would take a megabyte each for the agent's whole life.
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import urlsplit

DEFAULT_FILE = "/etc/fairlead/agent.conf"
"""Read when it is there and no other is named."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class SettingError(Exception):
    """A setting that cannot be used: says which, and where it was given."""


class ProbeSettings(NamedTuple):
    """What a `[probe NAME]` section says."""

    period_s: Optional[float] = None
    timeout_s: Optional[float] = None
    options: Tuple[Tuple[str, str], ...] = ()
    """Given to the probe by name."""


class Settings(NamedTuple):
    """Everything the agent can be told. `server` empty: records wait in the spool and nothing is sent."""

    server: str = ""
    token: str = ""
    ca: str = ""
    spool: str = "/var/spool/fairlead/agent"
    spool_bytes: int = 256 << 20
    spools: Tuple[str, ...] = ()
    root: str = "/"
    node: str = ""
    probes: Tuple[str, ...] = ("auto",)
    ship_s: float = 10.0
    idle_s: float = 60.0
    health_s: float = 60.0
    once: bool = False
    check: bool = False
    sync: bool = False
    quiet: bool = False
    probe: Tuple[Tuple[str, ProbeSettings], ...] = ()
    config: str = ""


def _text(value: str) -> str:
    return value


def _path(value: str) -> str:
    if not value:
        raise ValueError("a path is needed")
    return value


def _server(value: str) -> str:
    parts = urlsplit(value)
    strange = parts.username or parts.query or parts.fragment or " " in value
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or strange:
        raise ValueError("give https://HOST:PORT")
    return value.rstrip("/")


def _many(value: str) -> Tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _seconds(value: str) -> float:
    number = float(value)
    if not 0.01 <= number <= 86400.0:
        raise ValueError("give seconds from 0.01 to 86400")
    return number


def _bytes(value: str) -> int:
    unit = value[-1:].upper() if value[-1:].isalpha() else ""
    size = int(value[: len(value) - len(unit)]) * _UNITS[unit]
    if size < 1 << 16:
        raise ValueError("give 64K or more")
    return size


def _flag(value: str) -> bool:
    return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[value.lower()]


_READERS: Dict[str, Callable[[str], Any]] = {
    "server": _server,
    "token": _path,
    "ca": _path,
    "spool": _path,
    "spool_bytes": _bytes,
    "spools": _many,
    "root": _path,
    "node": _text,
    "probes": _many,
    "ship_s": _seconds,
    "idle_s": _seconds,
    "health_s": _seconds,
    "once": _flag,
    "check": _flag,
    "sync": _flag,
    "quiet": _flag,
}
FLAGS = ("once", "check", "sync", "quiet")
"""Options without a value."""
ONLY_OPTIONS = ("once", "check", "quiet")
"""Not in a file."""
HELP = """usage: fairlead agent run [OPTIONS]
       fairlead agent flush [--config FILE] [--spool DIR]   have the running agent read and send everything now

  --config FILE       read settings from FILE (key = value); options override it [/etc/fairlead/agent.conf if it exists]
  --server URL        the collector, https://HOST:PORT; without it records wait in the spool
  --token FILE        the token to show to the collector
  --ca FILE           trust this authority (PEM) instead of the system's
  --spool DIR         where records wait until they are sent [/var/spool/fairlead/agent]
  --spool-bytes SIZE  room they may take there, as 64M; the oldest go [256M]
  --spools DIR,...    send what mounts and forwarders spool there, too
  --root DIR          read counters below DIR instead of /
  --node NAME         this node's name in records [host name]
  --probes LIST       which probes, by comma; auto: all that find something [auto]
  --ship-s SECONDS    how often records are sent while something happens [10]
  --idle-s SECONDS    and while nothing does [60]
  --health-s SECONDS  how often the agent tells of itself [60]
  --sync              wait for the disk before a file of the spool counts
  --once              look twice, one second apart, send, end
  --check             say what is found and lacking here, ask the collector, end
  --quiet             say nothing but errors
  --help, --version
"""


def parse_agent_settings(arguments: Sequence[str], default_file: str = DEFAULT_FILE) -> Settings:
    """The settings of a command line and of the file it names. Raises SettingError."""
    given = _options(arguments)
    path = given.pop("config", "") or (default_file if os.path.exists(default_file) else "")
    told, sections = _file(path) if path else ({}, [])
    values: Dict[str, Any] = {}
    for name, (value, where) in list(told.items()) + [(name, (v, "--" + _dashed(name))) for name, v in given.items()]:
        values[name] = _read(name, value, where)
    settings = Settings(**values)._replace(probe=tuple(sections), config=path)
    if settings.server and not settings.token:
        raise SettingError("a server needs a token: --token FILE")
    return settings._replace(node=settings.node or _node())


def _node() -> str:
    return os.uname().nodename.partition(".")[0] or "localhost"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _read(name: str, value: str, where: str) -> Any:
    try:
        return _READERS[name](value)
    except KeyError:
        raise SettingError("{}: give yes or no, or a size such as 64M, not {!r}".format(where, value)) from None
    except ValueError as fault:
        raise SettingError("{}: {!r} cannot be used: {}".format(where, value, fault)) from None


def _options(arguments: Sequence[str]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        name = option[2:].replace("-", "_")
        if not option.startswith("--") or (name != "config" and name not in _READERS):
            raise SettingError("{}: no such option; fairlead agent run --help".format(option))
        if name in FLAGS:
            if equals:
                raise SettingError("{}: takes no value".format(option))
            value = "yes"
        elif not equals:
            if not rest:
                raise SettingError("{}: needs a value".format(option))
            value = rest.pop(0)
        found[name] = value
    return found


def _file(path: str) -> Tuple[Dict[str, Tuple[str, str]], List[Tuple[str, ProbeSettings]]]:
    """Settings by name with where they stand, and the sections of probes. `#` and `;` begin comments."""
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read(1 << 20).splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingError("{}: cannot be read: {}".format(path, fault)) from None
    told: Dict[str, Tuple[str, str]] = {}
    sections: List[Tuple[str, ProbeSettings]] = []
    for number, line in enumerate(lines, 1):
        where = "{}:{}".format(path, number)
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text[0] == "[":
            _section(text, where, sections)
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise SettingError("{}: {!r} is not `key = value`".format(where, text[:60]))
        if sections and sections[-1][0]:
            sections[-1] = (sections[-1][0], _probe_setting(sections[-1][1], name, value, where))
        elif name in ONLY_OPTIONS or name not in _READERS:
            raise SettingError("{}: unknown setting {!r}".format(where, name))
        else:
            told[name] = (value, "{} ({})".format(where, name))
    return told, [one for one in sections if one[0]]


def _section(text: str, where: str, sections: List[Tuple[str, ProbeSettings]]) -> None:
    words = text.strip("[]").split()
    if words == ["agent"]:
        sections.append(("", ProbeSettings()))
    elif len(words) == 2 and words[0] == "probe" and text.endswith("]"):
        sections.append((words[1], ProbeSettings()))
    else:
        raise SettingError("{}: sections are [agent] and [probe NAME], not {}".format(where, text[:60]))


def _probe_setting(known: ProbeSettings, name: str, value: str, where: str) -> ProbeSettings:
    if name in ("period_s", "timeout_s"):
        try:
            return known._replace(**{name: _seconds(value)})  # type: ignore[arg-type]
        except ValueError as fault:
            raise SettingError("{} ({}): {}".format(where, name, fault)) from None
    return known._replace(options=(*known.options, (name, value)))
