"""What the command line does once before Arrow is used, to start fast. Not for library use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """A finder to whom pandas is not installed, as long as it is asked from within fairlead's own code.

    fairlead never imports pandas; an import seen from one of its frames is pyarrow's, whose C++ side looks for pandas
    at conversions. A plug-in that imports pandas does so from a frame of its own and gets it.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Refuse pandas to pyarrow, know nothing of the rest."""
        del path, target
        if name != "pandas":
            return
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
            frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("fairlead."):
            raise ModuleNotFoundError("pyarrow need not import pandas for fairlead", name=name)


def skip_pandas_at_startup() -> None:
    """Keep pyarrow from importing pandas (half a second and 60 MiB) where it happens to be installed."""
    if "pandas" not in sys.modules and not any(isinstance(f, _NoPandas) for f in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
