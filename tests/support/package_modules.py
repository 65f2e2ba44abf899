"""What the tests of the house read of each module of the package, parsed once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "fairlead"
MODULES = sorted(PACKAGE.rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """One name of an import statement; `module` is "." for a relative import."""

    line: int
    module: str
    on_import: bool
    """Carried out when the module itself is imported: not inside a function, not under `if TYPE_CHECKING`."""


class FunctionName(NamedTuple):
    """A public function, or a public method of a public class."""

    line: int
    name: str
    is_method: bool
    decorators: str


class Module(NamedTuple):
    """What a module says of itself, without its code."""

    docstring: str
    first_line: int
    undocumented: tuple[str, ...]
    classes: tuple[str, ...]
    functions: tuple[FunctionName, ...]
    imports: tuple[Import, ...]


def name_of(path: Path) -> str:
    """The path of a module inside the package."""
    return path.relative_to(PACKAGE).as_posix()


@cache
def read_module(path: Path) -> Module:
    """Parses one module of the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_once = set(_executed_on_import(tree.body))
    return Module(
        docstring=ast.get_docstring(tree) or "",
        first_line=tree.body[0].lineno if tree.body else 0,
        undocumented=tuple(
            node.name
            for node in tree.body
            if isinstance(node, Function | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ),
        classes=tuple(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)),
        functions=tuple(_public_functions(tree.body, inside=False)),
        imports=tuple(
            Import(node.lineno, module, node in at_once)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for module in _imported(node)
        ),
    )


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "" if node.level == 0 else "."]


def _executed_on_import(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements at module level, also those under `if` and `try`, but not under `if TYPE_CHECKING`."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            found += _executed_on_import(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            found += _executed_on_import(node.body + node.orelse + node.finalbody)
    return found


def _public_functions(body: list[ast.stmt], *, inside: bool) -> list[FunctionName]:
    found: list[FunctionName] = []
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += _public_functions(node.body, inside=True)
        elif isinstance(node, ast.If | ast.Try):
            found += _public_functions(node.body, inside=inside)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            found.append(FunctionName(node.lineno, node.name, inside, decorators))
    return found
