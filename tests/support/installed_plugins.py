"""Installing plug-ins for a test as pip would: modules and a dist-info with entry points in a folder of the path."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.core import extensions
from fairlead.explain.questions import question_catalog
from fairlead.see.sources import registered_sources

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"


def write_dist_info(folder: Path, name: str, group: str, entry: str, target: str) -> None:
    """What an installer leaves beside the modules of a package."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry} = {target}\n", encoding="utf-8")


def install_text(folder: Path, group: str, entry: str, attribute: str, text: str) -> str:
    """A package `site-ENTRY` of one module with this text; returns the module's name."""
    module = f"site_{entry}_{folder.name}".replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    write_dist_info(folder, f"site-{entry}", group, entry, f"{module}:{attribute}")
    return module


def install_example(folder: Path, kind: str) -> None:
    """The example of that kind, its entry points read from its pyproject."""
    project = tomllib.loads((EXAMPLES / kind / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder.mkdir(parents=True, exist_ok=True)
    for part in (EXAMPLES / kind).iterdir():
        if part.is_dir():
            shutil.copytree(part, folder / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif part.suffix == ".py":
            shutil.copy(part, folder)
    ((group, entries),) = project["entry-points"].items()
    ((entry, target),) = entries.items()
    write_dist_info(folder, project["name"], group, entry, target)


def forget_plugins() -> None:
    """Empties what is remembered of entry points."""
    extensions.find_extensions.cache_clear()
    extensions._REPORTED.clear()
    question_catalog.list_questions.cache_clear()
    registered_sources.load_registered_source.cache_clear()


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """What is installed in `folder` is found meanwhile."""
    modules = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    forget_plugins()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - modules:
            if name.startswith("site_"):
                del sys.modules[name]
        forget_plugins()
