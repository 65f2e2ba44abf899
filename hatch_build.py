"""Builds the pages when the package is built, so that who installs a wheel needs no Node.

An editable install goes on without them: the server then says how to build them. Not here: the building (`tools`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))


class PagesHook(BuildHookInterface[Any]):
    """Runs before the files of the wheel are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Builds what is out of date."""
        from build_pages import BuildError, build

        try:
            build()
        except BuildError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the pages were not built: {error}\n→ make pages")
