"""Where Lustre's parameters are read: the kernel's three trees, or the text of `lctl get_param`, by one set of names.

Not here: what the parameters say. A pattern is a path below `/proc/fs/lustre`, as `obdfilter/*/stats`.
"""

import errno
import fnmatch
import os
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Pattern, Sequence, Tuple

BASES = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
"""What is in which differs by version: counters moved from /proc to debugfs, single values to /sys."""
CHUNK = 1 << 18
_LISTED_FOR_NS = 10 * 10**9
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESTALE)
_HEADER = re.compile(rb"^([A-Za-z_][\w-]*(?:\.[^\s=]+)?)=", re.M)
_MOST_HEADER = 1 << 16


class Parameter(NamedTuple):
    """One parameter: the parts of its name that stood for `*`, and where its text is."""

    stars: Tuple[str, ...]
    path: str
    begin: int = 0
    end: int = -1


class Place(ABC):
    """A set of parameters. `refused` names a folder that could not be listed, if there was one."""

    refused: Optional[str] = None

    @abstractmethod
    def find(self, pattern: str) -> List[Parameter]:
        """All parameters of that pattern, sorted."""

    @abstractmethod
    def read_chunks(self, parameter: Parameter) -> Iterator[bytes]:
        """Its text, piece by piece. One that is gone by now is empty. Raises OSError."""

    def read(self, parameter: Parameter, most: int = 1 << 22) -> bytes:
        """Its text, at most `most` bytes of it. Raises OSError."""
        parts: List[bytes] = []
        size = 0
        for chunk in self.read_chunks(parameter):
            parts.append(chunk)
            size += len(chunk)
            if size >= most:
                break
        return b"".join(parts)[:most]

    def read_word(self, pattern: str) -> str:
        """The text of a parameter of one line, "" when it is not there."""
        for parameter in self.find(pattern):
            return self.read(parameter, 4096).decode("utf-8", "replace").strip()
        return ""


class Tree(Place):
    """The kernel's files below `root`. Folders are listed again after ten seconds, not at every look."""

    def __init__(self, root: str) -> None:
        self.bases = [os.path.join(root, base) for base in BASES]
        self._listed: Dict[str, List[Parameter]] = {}
        self._listed_ns: Optional[int] = None

    def look(self, now_ns: int) -> None:
        """Begin a look: forget listings that are old."""
        if self._listed_ns is None or not 0 <= now_ns - self._listed_ns < _LISTED_FOR_NS:
            self._listed_ns = now_ns
            self._listed.clear()
            self.refused = None

    def find(self, pattern: str) -> List[Parameter]:
        found = self._listed.get(pattern)
        if found is None:
            by_name: Dict[Tuple[str, ...], Parameter] = {}
            for base in self.bases:
                for one in self._walk(base, pattern.split("/"), ()):
                    by_name.setdefault(one.stars, one)
            found = self._listed[pattern] = [by_name[name] for name in sorted(by_name)]
        return found

    def _walk(self, folder: str, parts: Sequence[str], stars: Tuple[str, ...]) -> Iterator[Parameter]:
        part, rest = parts[0], parts[1:]
        if "*" not in part:
            path = os.path.join(folder, part)
            if rest:
                for one in self._walk(path, rest, stars):
                    yield one
            elif os.path.exists(path):
                yield Parameter(stars, path)
            return
        try:
            names = sorted(os.listdir(folder))
        except OSError as fault:
            if fault.errno in (errno.EACCES, errno.EPERM):
                self.refused = folder
            return
        for name in names:
            if fnmatch.fnmatchcase(name, part):
                path = os.path.join(folder, name)
                if rest:
                    for one in self._walk(path, rest, (*stars, name)):
                        yield one
                elif not os.path.isdir(path):
                    yield Parameter((*stars, name), path)

    def read_chunks(self, parameter: Parameter) -> Iterator[bytes]:
        try:
            with open(parameter.path, "rb", buffering=0) as file:
                while True:
                    chunk = file.read(CHUNK)
                    if not chunk:
                        return
                    yield chunk
        except OSError as fault:
            if fault.errno not in _GONE:
                raise
            self._listed_ns = None


class Dump(Place):
    """The text of `lctl get_param`: `name=value` lines, or `name=` and the lines of the value."""

    def __init__(self, file: BinaryIO, values: Optional[Dict[str, Tuple[int, int]]] = None) -> None:
        """`file` can seek; it is read once for its names, and again where a value is wanted. `values` are the places of
        those of one snapshot, where the file holds several; without, a parameter written twice is as it was last."""
        self.file = file
        if values is None:
            values = {}
            for part in _snapshots(file):
                values.update(part)
        self._values = values
        self.names = sorted(values)

    @classmethod
    def read_snapshots(cls, file: BinaryIO) -> "List[Dump]":
        """The dumps of a file that each one was added to (`>>`): a new one begins where the first name returns."""
        return [cls(file, values) for values in _snapshots(file)]

    @property
    def extent(self) -> Tuple[int, int]:
        """From where to where the file holds this dump's values."""
        places = self._values.values()
        return min((begin for begin, _ in places), default=0), max((end for _, end in places), default=0)

    def find(self, pattern: str) -> List[Parameter]:
        wanted = _pattern(pattern)
        found = []
        for name in self.names:
            match = wanted.match(name)
            if match is not None:
                begin, end = self._values[name]
                found.append(Parameter(match.groups(), name, begin, end))
        return found

    def read_chunks(self, parameter: Parameter) -> Iterator[bytes]:
        at = parameter.begin
        while at < parameter.end:
            self.file.seek(at)
            chunk = self.file.read(min(CHUNK, parameter.end - at))
            if not chunk:
                return
            if at == parameter.begin and chunk[:1] == b"\n":
                chunk = chunk[1:]
                at += 1
            at += len(chunk)
            if chunk:
                yield chunk


def ask_lctl_parameters(command: Sequence[str], patterns: Sequence[str], timeout_s: float) -> Dump:
    """What `lctl get_param` answers of these patterns, kept in a file without a name. Raises OSError."""
    names = [pattern.replace("/", ".") for pattern in patterns]
    output = tempfile.TemporaryFile()  # noqa: SIM115  (the Dump holds it)
    try:
        _run([*command, "get_param", *names], output, timeout_s)
        return Dump(output)
    except BaseException:
        output.close()
        raise


def _run(command: Sequence[str], output: BinaryIO, timeout_s: float) -> None:
    """Run a command to its end. Raises OSError when it takes too long, or fails and says nothing."""
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdin=nothing, stdout=output, stderr=complaints, close_fds=True)
        try:
            status = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError("{} has not ended after {} s".format(command[0], timeout_s)) from None
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        # lctl says by its status that one of the names is not there, and gives the others.
        if status not in (0, errno.ENOENT) and output.seek(0, os.SEEK_END) == 0:
            complaints.seek(0)
            said = complaints.read(200).decode("utf-8", "replace").strip()
            raise OSError("{} ended with status {}: {}".format(command[0], status, said))


def _snapshots(file: BinaryIO) -> List[Dict[str, Tuple[int, int]]]:
    """Where the values of each name begin and end, by snapshot; one, perhaps empty, at least."""
    found: List[Dict[str, Tuple[int, int]]] = [{}]
    first = last = ""
    begin = 0
    for name, at, after in _headers(file):
        if last:
            found[-1][last] = (begin, at)
        if name == first:
            found.append({})
        first = first or name
        last, begin = name, after
    if last:
        found[-1][last] = (begin, file.seek(0, os.SEEK_END))
    return found


def _headers(file: BinaryIO) -> Iterator[Tuple[str, int, int]]:
    """(name, where its line begins, where its value begins) of every parameter."""
    file.seek(0)
    at = 0
    kept = b""
    while True:
        chunk = file.read(CHUNK)
        text = kept + chunk
        # A line is looked at when it is whole; one far too long for a name is let go.
        cut = len(text) if not chunk else text.rfind(b"\n") + 1
        if not cut and len(text) > _MOST_HEADER:
            cut = len(text)
        for match in _HEADER.finditer(text, 0, cut):
            yield match.group(1).decode("utf-8", "replace"), at + match.start(), at + match.end()
        at += cut
        kept = text[cut:]
        if not chunk:
            return


def _pattern(pattern: str) -> Pattern[str]:
    """The pattern as names of lctl have it. Only addresses (NIDs) hold dots."""
    made = _PATTERNS.get(pattern)
    if made is None:
        parts = pattern.split("/")
        texts = []
        for place, part in enumerate(parts):
            dotted = place > 0 and parts[place - 1] in ("exports", "mgc")
            texts.append(re.escape(part).replace("\\*", "*").replace("*", "(.+)" if dotted else "([^.]*)"))
            if "*" in part and part != "*":
                texts[-1] = "(" + texts[-1].replace("(", "(?:") + ")"
        made = _PATTERNS[pattern] = re.compile("\\.".join(texts) + r"\Z")
    return made


_PATTERNS: "Dict[str, Pattern[str]]" = {}
