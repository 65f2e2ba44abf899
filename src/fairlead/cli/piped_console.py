"""Standard output for people, by way of rich. Imported where something is printed: rich takes a while."""

from __future__ import annotations

from rich.console import Console


class PipedConsole(Console):
    """Leaves the end of a broken pipe to the command line, which has an exit code for it."""

    def on_broken_pipe(self) -> None:
        """Called by rich while the BrokenPipeError is handled."""
        raise BrokenPipeError
