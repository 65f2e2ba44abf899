"""What travels with the agent is Python 3.6 and needs nothing but Python: told from the text, and by a real 3.6."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from old_interpreter import old_python

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from agent import PACKAGE, sources  # noqa: E402

SOURCES = sources()
NEWER_MODULES = {
    "dataclasses",
    "contextvars",
    "importlib.resources",
    "importlib.metadata",
    "zoneinfo",
    "graphlib",
    "tomllib",
}
NEWER_NAMES = {
    "time_ns",
    "monotonic_ns",
    "perf_counter_ns",
    "process_time_ns",
    "thread_time",
    "clock_gettime_ns",
    "removeprefix",
    "removesuffix",
    "isascii",
    "fromisoformat",
    "cached_property",
    "get_running_loop",
    "bit_count",
    "prod",
    "dist",
    "nullcontext",
    "Protocol",
    "Final",
    "Literal",
    "TypedDict",
    "final",
    "ParamSpec",
    "TypeAlias",
    "Self",
    "pairwise",
    "posix_spawn",
    "memfd_create",
    "get_native_id",
    "excepthook_args",
    "unraisablehook",
}
NEWER_ARGUMENTS = {"capture_output", "missing_ok", "dirs_exist_ok", "strict", "text"}
"""Of subprocess, pathlib, shutil, zip; `text` is a column, too, so only in calls of subprocess."""
OURS = ("fairlead.see.agent", "fairlead.see.probes", "fairlead.core.batches.encoding", "fairlead.core.batches.spool")


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))))


def test_the_words_are_those_of_python_3_6() -> None:
    wrong = []
    for path in SOURCES:
        for node in _nodes(path):
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.NamedExpr | ast.Match):
                wrong.append(f"{_name(path)}:{line}: {type(node).__name__}")
            elif isinstance(node, ast.Attribute) and node.attr in NEWER_NAMES:
                wrong.append(f"{_name(path)}:{line}: {node.attr}")
            elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
                wrong.append(f"{_name(path)}:{line}: from __future__")
            elif isinstance(node, ast.ImportFrom):
                wrong += [f"{_name(path)}:{line}: {one.name}" for one in node.names if one.name in NEWER_NAMES]
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                wrong += [
                    f"{_name(path)}:{line}: {one.arg}="
                    for one in node.keywords
                    if one.arg in NEWER_ARGUMENTS and (one.arg != "text" or called.startswith("subprocess."))
                ]
            elif isinstance(node, ast.FunctionDef | ast.Lambda) and node.args.posonlyargs:
                wrong.append(f"{_name(path)}:{line}: positional-only")
    assert not wrong


def test_it_imports_nothing_but_python_and_itself() -> None:
    outside = []
    for path in SOURCES:
        for node in _nodes(path):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, _name(path)
                names = [node.module or ""]
                if node.module == "fairlead.core.batches":
                    names = [f"fairlead.core.batches.{one.name}" for one in node.names]
            else:
                continue
            for name in names:
                ours = name == "fairlead" or any(name == one or name.startswith(one + ".") for one in OURS)
                python = name.partition(".")[0] in sys.stdlib_module_names and name not in NEWER_MODULES
                if not (ours or python):
                    outside.append(f"{_name(path)}: {name}")
    assert not outside


def _run(python: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, *words], capture_output=True, text=True, check=False)


def test_starting_loads_little() -> None:
    """What a node's memory holds for months: neither parsers of arguments nor frameworks."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import fairlead.see.agent.run; print(*sys.modules)"
    done = _run(sys.executable, "-S", "-c", program, str(PACKAGE.parent))
    assert done.returncode == 0, done.stderr
    unwanted = {
        "argparse",
        "asyncio",
        "configparser",
        "dataclasses",
        "subprocess",
        "urllib.request",
        "logging",
        "click",
        "inspect",
        "pathlib",
        "tempfile",
        "shutil",
        "unittest",
        "xml",
    }
    assert not set(done.stdout.split()) & unwanted


def test_a_real_python_3_6_imports_all_of_it() -> None:
    oldest = old_python()
    if oldest is None:
        pytest.skip("no Python 3.6: pyenv install 3.6")
    names = [_name(path)[:-3].replace("/", ".").removesuffix(".__init__") for path in SOURCES]
    modules = [f"fairlead.{name}" for name in names if name not in ("__init__", "agent.__main__")]
    program = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1]); [importlib.import_module(m) for m in sys.argv[2:]]"
    )
    done = _run(oldest, "-W", "error", "-B", "-c", program, str(PACKAGE.parent), *modules)
    assert done.returncode == 0, done.stderr
