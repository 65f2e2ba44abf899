"""The site's navigation, made from the folders: a new page appears without being listed anywhere.

Pages are ordered by file name inside a section (decisions carry numbers), `index.md` first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SECTIONS = {
    "tutorial": "Tutorial",
    "howto": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "decisions": "Decisions",
}


def on_config(config: Any) -> Any:
    """MkDocs calls this once its configuration is read."""
    root = Path(config["docs_dir"])
    sections = [{title: _pages(root / folder, root)} for folder, title in SECTIONS.items()]
    config["nav"] = [{"Home": "index.md"}, *(section for section in sections if all(section.values()))]
    return config


def _pages(folder: Path, root: Path) -> list[Any]:
    """Pages of a folder, then its folders as sections of their own."""
    pages = sorted(folder.glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
    entries: list[Any] = [page.relative_to(root).as_posix() for page in pages]
    folders = sorted(path for path in folder.glob("*/") if any(path.rglob("*.md")))
    return [*entries, *({inner.name.replace("_", " ").capitalize(): _pages(inner, root)} for inner in folders)]
