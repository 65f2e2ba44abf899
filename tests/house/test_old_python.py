"""What travels to nodes runs on the Python of EL8 and SLES 15: 3.6 and its standard library. No 3.6 is needed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from old_interpreter import HOW, old_python

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fairlead"
CORE, SEE = PACKAGE / "core", PACKAGE / "see"
FILES = sorted(
    [
        *(SEE / "probes").rglob("*.py"),
        *(SEE / "agent").rglob("*.py"),
        CORE / "batches" / "encoding.py",
        CORE / "batches" / "spool.py",
        *(folder / "__init__.py" for folder in (PACKAGE, CORE, CORE / "batches", SEE)),
    ]
)
OURS = (
    "fairlead.see.probes",
    "fairlead.see.agent",
    "fairlead.core.batches.encoding",
    "fairlead.core.batches.spool",
    "fairlead",
)
"""Packages that travel. `fairlead` itself is its version, nothing else."""

STDLIB = frozenset(
    re.findall(
        r"\S+",
        """__future__ abc argparse array ast asyncio base64 binascii bisect bz2 calendar codecs collections concurrent
    configparser contextlib copy csv ctypes datetime decimal difflib email enum errno fcntl fnmatch fractions functools
    gc getpass glob grp gzip hashlib heapq hmac html http importlib inspect io ipaddress itertools json keyword locale
    logging lzma math mmap multiprocessing netrc operator os pathlib pickle pkgutil platform pprint pwd queue random re
    resource sched secrets select selectors shlex shutil signal site socket sqlite3 ssl stat string struct subprocess
    sys sysconfig syslog tempfile textwrap threading time timeit token tokenize traceback tracemalloc types typing
    unicodedata urllib uuid warnings weakref xml zipapp zipfile zipimport zlib""",
    )
)
"""Modules of Python 3.6 that are still there in every later one."""

NEWER = frozenset(
    re.findall(
        r"\S+",
        """time.time_ns time.monotonic_ns time.perf_counter_ns time.process_time_ns time.clock_gettime_ns
    time.thread_time math.prod math.comb math.perm math.dist math.isqrt math.lcm math.nextafter math.ulp
    math.cbrt math.exp2 math.sumprod functools.cache functools.cached_property functools.singledispatchmethod
    itertools.pairwise itertools.batched contextlib.nullcontext contextlib.AsyncExitStack
    contextlib.asynccontextmanager contextlib.aclosing contextlib.chdir typing.Protocol typing.Literal
    typing.Final typing.TypedDict typing.ForwardRef typing.Annotated typing.final typing.runtime_checkable
    typing.get_origin typing.get_args typing.SupportsIndex typing.ParamSpec typing.TypeAlias typing.TypeGuard
    typing.Concatenate typing.Self typing.Never typing.assert_never typing.Required typing.NotRequired
    typing.Unpack typing.override typing.OrderedDict typing.NoReturn re.Pattern re.Match re.NOFLAG os.pidfd_open
    os.memfd_create os.posix_spawn os.waitstatus_to_exitcode os.eventfd os.sched_getcpu os.register_at_fork
    os.preadv os.pwritev os.splice os.unshare shlex.join socket.create_server socket.has_dualstack_ipv6
    socket.send_fds socket.recv_fds hashlib.file_digest queue.SimpleQueue asyncio.run asyncio.create_task
    asyncio.get_running_loop asyncio.current_task asyncio.all_tasks asyncio.to_thread asyncio.timeout
    asyncio.TaskGroup asyncio.Runner statistics.fmean threading.excepthook threading.get_native_id
    sys.breakpointhook sys.orig_argv sys.stdlib_module_names sys.audit sys.addaudithook sys.unraisablehook
    importlib.metadata importlib.resources ssl.TLSVersion ssl.SSLContext.minimum_version random.randbytes
    zlib.crc32_combine hmac.digest http.ThreadingHTTPServer http.server.ThreadingHTTPServer enum.StrEnum
    enum.verify enum.member datetime.UTC graphlib zoneinfo tomllib platform.freedesktop_os_release""",
    )
)
"""module.name that 3.6 does not have."""
NEWER_METHODS = frozenset(
    (
        "fromisoformat",
        "removeprefix",
        "removesuffix",
        "isascii",
        "bit_count",
        "hardlink_to",
        "is_relative_to",
        "with_stem",
        "reconfigure",
        "to_thread",
        "cancel_futures",
    )
)
"""Methods that objects of 3.6 do not have."""
NEWER_ARGUMENTS = {
    "run": {"capture_output", "text"},
    "Popen": {"text", "pipesize", "process_group"},
    "check_output": {"text"},
    "check_call": {"text"},
    "unlink": {"missing_ok"},
    "copytree": {"dirs_exist_ok"},
    "rmtree": {"onexc"},
    "shutdown": {"cancel_futures"},
    "ArgumentParser": {"exit_on_error"},
    "add_subparsers": {"required"},
    "zip": {"strict"},
    "ZipFile": {"strict_timestamps", "compresslevel"},
    "TemporaryDirectory": {"ignore_cleanup_errors", "delete"},
    "NamedTemporaryFile": {"delete_on_close", "errors"},
    "blake2b": {"usedforsecurity"},
    "sha256": {"usedforsecurity"},
    "md5": {"usedforsecurity"},
    "sha1": {"usedforsecurity"},
    "compress": {"mtime"},
    "pow": {"mod"},
    "hex": {"sep"},
    "namedtuple": {"defaults"},
    "basicConfig": {"force", "encoding"},
}
"""Arguments that came later, by the name of what is called."""
NEW_GENERICS = frozenset(("list", "dict", "set", "tuple", "frozenset", "type", "array", "deque", "Popen"))


def complaints(source: str) -> list[str]:
    """What of a module 3.6 does not have: syntax, modules, names, methods, arguments, annotations it evaluates."""
    try:
        tree = ast.parse(source, feature_version=(3, 6))
    except SyntaxError as fault:
        return [f"line {fault.lineno}: {fault.msg}"]
    modules = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    asked = _asked(tree)
    found = []
    for node in ast.walk(tree):
        if node in asked:
            continue
        found += [f"line {getattr(node, 'lineno', 0)}: {what}" for what in _of(node, modules)]
    for annotation in _evaluated(tree):
        found += [f"line {annotation.lineno}: {what}" for what in _of_annotation(annotation)]
    return found


def _asked(tree: ast.Module) -> set[ast.AST]:
    """What runs only where `hasattr` said that it is there."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Call)
        and getattr(node.test.func, "id", "") == "hasattr"
        for one in node.body
        for inner in ast.walk(one)
    }


def _of(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"imports {alias.name}" for alias in node.names if not _known(alias.name))
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level or not _known(module):
            yield f"imports {'.' * node.level}{module}"
        if module == "__future__":
            yield from (f"from __future__ import {a.name}" for a in node.names if a.name == "annotations")
        if module == "fairlead":
            yield from (
                f"imports fairlead.{a.name}"
                for a in node.names
                if a.name != "__version__" and not _known(f"fairlead.{a.name}")
            )
        yield from (f"{module}.{a.name}" for a in node.names if f"{module}.{a.name}" in NEWER)
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and f"{modules.get(node.value.id, '')}.{node.attr}" in NEWER:
            yield f"{node.value.id}.{node.attr}"
        elif node.attr in NEWER_METHODS:
            yield f".{node.attr}"
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        newer = NEWER_ARGUMENTS.get(called, set())
        yield from (f"{called}({k.arg}=)" for k in node.keywords if k.arg in newer)
        if called == "breakpoint":
            yield "breakpoint()"
    elif isinstance(node, ast.Subscript) and any(
        isinstance(one, ast.Starred) for one in ast.iter_child_nodes(node.slice)
    ):
        yield "a star in an index"
    elif isinstance(node, ast.NamedExpr):
        yield "a walrus"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.posonlyargs:
        yield "positional-only arguments"
    elif isinstance(node, ast.Try) and any(
        isinstance(inner, ast.Continue) for one in node.finalbody for inner in ast.walk(one)
    ):
        yield "continue in finally"


def _known(module: str) -> bool:
    if module.split(".")[0] == "fairlead":
        return module in OURS or module.startswith(tuple(f"{one}." for one in OURS if one != "fairlead"))
    return module.split(".")[0] in STDLIB and module not in NEWER


def _evaluated(tree: ast.Module) -> Iterator[ast.expr]:
    """Annotations and bases that the interpreter evaluates: those of arguments, results, classes and modules. Those of
    variables inside functions are not."""
    local: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            local |= {inner for inner in ast.walk(node) if isinstance(inner, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.AnnAssign) and node not in local:
            yield node.annotation
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            yield node.value  # an alias: Rows = Dict[str, int]


def _of_annotation(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _are_types(node):
            yield f"{ast.unparse(node)} is evaluated"
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            inner = node.slice
            is_type = isinstance(inner, ast.Name | ast.Tuple | ast.Subscript) and not isinstance(
                node.value, ast.Subscript
            )
            if name in NEW_GENERICS and is_type and _names_types(inner):
                yield f"{ast.unparse(node)} is evaluated"


def _are_types(node: ast.BinOp) -> bool:
    return _names_types(node.left) or _names_types(node.right)


def _names_types(node: ast.expr) -> bool:
    """Whether an expression names a type, as far as names tell: those of types begin large or are built in."""
    words = {"int", "str", "bytes", "float", "bool", "object", "None", "list", "dict", "set", "tuple"}
    return any(
        (isinstance(inner, ast.Name) and (inner.id in words or inner.id[:1].isupper()) and not inner.id.isupper())
        or (isinstance(inner, ast.Constant) and inner.value is None)
        for inner in ast.walk(node)
    )


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(PACKAGE).as_posix() for path in FILES])
def test_what_travels_is_python_3_6(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


IMPORTING = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print(sorted(name for name in sys.modules if name.startswith("fairlead")))
"""


def test_what_travels_is_imported_by_python_3_6() -> None:
    found = old_python()
    if found is None:
        pytest.skip(HOW)
    names = [".".join(("fairlead", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in FILES]
    names = [name.replace(".__init__", "") for name in names if not name.endswith("__main__")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [found, "-B", "-W", "error", "-c", IMPORTING, str(ROOT / "src"), *names],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout) == sorted({*names, "fairlead"})


def test_there_is_something_to_look_at() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in FILES}
    assert {"see/probes/base.py", "see/probes/lustre/job_stats.py", "core/batches/encoding.py"} <= names


BAD = {
    "walrus": "if (n := 3):\n    pass\n",
    "positional-only": "def f(a, /):\n    pass\n",
    "f-string =": "x = 1\nprint(f'{x=}')\n",
    "match": "match x:\n    case 1:\n        pass\n",
    "except*": "try:\n    pass\nexcept* ValueError:\n    pass\n",
    "star in index": "x = a[*b]\n",
    "future": "from __future__ import annotations\n",
    "dataclasses": "import dataclasses\n",
    "from dataclasses": "from dataclasses import dataclass\n",
    "contextvars": "import contextvars\n",
    "importlib.metadata": "import importlib.metadata\n",
    "third party": "import numpy as np\n",
    "errors of ours": "from fairlead.core.errors import InputError\n",
    "model of ours": "from fairlead import model\n",
    "relative": "from . import base\n",
    "time_ns": "import time\nx = time.time_ns()\n",
    "time_ns renamed": "import time as t\nx = t.monotonic_ns\n",
    "from time": "from time import time_ns\n",
    "cache": "import functools\n@functools.cache\ndef f():\n    pass\n",
    "prod": "from math import prod\n",
    "protocol": "from typing import Protocol\n",
    "typed dict": "import typing\nclass A(typing.TypedDict):\n    pass\n",
    "literal": "from typing import Literal\n",
    "final": "from typing import Final\n",
    "capture_output": "import subprocess\nsubprocess.run(['a'], capture_output=True)\n",
    "text": "import subprocess\nsubprocess.Popen(['a'], text=True)\n",
    "fromisoformat": "import datetime\nx = datetime.datetime.fromisoformat('2020-01-01')\n",
    "removeprefix": "x = 'a'.removeprefix('b')\n",
    "isascii": "x = 'a'.isascii()\n",
    "zip strict": "for a in zip([], [], strict=True):\n    pass\n",
    "union evaluated": "def f(a: int | None) -> None:\n    pass\n",
    "list evaluated": "def f(a: list[int]) -> None:\n    pass\n",
    "result evaluated": "def f() -> dict[str, int]:\n    pass\n",
    "class variable": "class A:\n    x: tuple[int, ...]\n",
    "alias": "from typing import Dict\nA = dict[str, int]\n",
    "re.Pattern": "import re\ndef f(a: re.Pattern) -> None:\n    pass\n",
    "nullcontext": "from contextlib import nullcontext\n",
    "unlink": "import pathlib\npathlib.Path('a').unlink(missing_ok=True)\n",
    "continue in finally": "for a in b:\n    try:\n        pass\n    finally:\n        continue\n",
    "breakpoint": "breakpoint()\n",
    "parenthesised with": "with (open('a') as b, open('c') as d):\n    pass\n",
}
GOOD = {
    "asked": "import ssl\nif hasattr(ssl, 'TLSVersion'):\n    x = ssl.TLSVersion.TLSv1_2\n",
    "attribute": "class A:\n    def f(self):\n        self.x: list[int] = []\n",
    "quoted": "def f(a: 'list[int] | None') -> 'dict[str, int]':\n    x: list[int] = []\n    return {}\n",
    "typing": "from typing import Dict, NamedTuple, Optional\nclass A(NamedTuple):\n    a: Optional[int] = None\n"
    "X = Dict[str, int]\nD: Dict[str, int] = {}\n",
    "ours": "import fairlead\nfrom fairlead.see.probes.base import Probe\nfrom fairlead import __version__\n",
    "bits": "FLAGS = 1 | 2\nx = FLAGS | 4\ny = rows[a]\n",
    "f-string": "x = 1\ny = f'{x!r:>3}'\n",
    "subprocess": "import subprocess\nsubprocess.Popen(['a'], stdout=subprocess.PIPE, universal_newlines=True)\n",
    "async": "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n",
}


@pytest.mark.parametrize("name", BAD)
def test_what_3_6_does_not_have_is_found(name: str) -> None:
    assert complaints(BAD[name]), BAD[name]


@pytest.mark.parametrize("name", GOOD)
def test_what_3_6_has_is_let_be(name: str) -> None:
    assert complaints(GOOD[name]) == []
