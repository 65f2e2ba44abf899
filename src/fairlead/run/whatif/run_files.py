"""Files of what-if runs in the state folder: `ID.run.json`, and `ID.answer.json` once one is done.

What cannot be read is told and left alone. Not here: when a run is kept or goes (`queue`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairlead.core.errors import LakeError
from fairlead.explain.questions.answers_whatif_runs import WhatIfRun

_NAME = re.compile(r"([0-9a-f]{16})\.run\.json")
log = logging.getLogger("fairlead.whatif")


class RunFolder:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        """Makes it where it is not there. Raises LakeError."""
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise _unusable(folder, fault) from fault

    def iterate_runs(self) -> Iterator[WhatIfRun]:
        """Every run that can be read."""
        for path in sorted(self._folder.iterdir()):
            if not _NAME.fullmatch(path.name):
                continue
            try:
                run = msgspec.json.decode(path.read_bytes(), type=WhatIfRun)
            except (OSError, msgspec.DecodeError) as fault:
                log.warning("%s cannot be read: %s", path, fault)
                continue
            if path.name == f"{run.id}.run.json":
                yield run

    def write(self, run: WhatIfRun) -> None:
        """Keeps it as it is now, on disk when this returns. Raises LakeError."""
        path = self._folder / f"{run.id}.run.json"
        draft = path.with_suffix(".new")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(msgspec.structs.replace(run, progress=None, before=None)))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as fault:
            raise _unusable(path, fault) from fault

    def answer_file(self, name: str) -> Path:
        """Where its answer goes."""
        return self._folder / f"{name}.answer.json"

    def answer(self, name: str) -> bytes | None:
        """Its answer; None where there is none (any more)."""
        try:
            return self.answer_file(name).read_bytes()
        except OSError:
            return None

    def remove(self, name: str) -> None:
        """Forgets it. Raises LakeError."""
        try:
            for end in ("answer.json", "answer.json.new", "run.json"):
                (self._folder / f"{name}.{end}").unlink(missing_ok=True)
        except OSError as fault:
            raise _unusable(self._folder, fault) from fault


def _unusable(path: Path, fault: OSError) -> LakeError:
    return LakeError(f"cannot be used: {fault.strerror or fault}", where=str(path), remedy="check folder and owner")
