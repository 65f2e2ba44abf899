"""The shape of the house: rooms point down to core, files can be read in one sitting, importing is cheap."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import fairlead
from package_modules import MODULES, PACKAGE, ROOT, name_of, read_module

MAX_LINES = 600
LONG = {"core/model/tables.py"}
"""A column of a record a line; in two files one would have to guess which."""
MAX_OPENING_LINES = 3
EMPTY_ENDINGS = ("manager", "handler", "helper", "processor", "util", "utils")
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "handler", "processor", "common", "misc"}
HEAVY = {"numba", "scipy", "sklearn", "pandas", "duckdb", "deltalake", "matplotlib", "dask", "darshan"}
"""Imported inside the functions that need them, never when a module is."""
KERNEL = re.compile(r"(\w+_)?kernel|kernel_memory")
"""Modules of compiled loops: they may import numba at their top, and are themselves imported by functions only."""
SIBLINGS = {"docs", "tests", "benchmarks", "examples", "tools"}


def test_contract_house_page_and_readme_name_the_same_rooms() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    faces = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    loop = next(contract for contract in contracts if contract.get("containers") == ["fairlead"])
    assert loop["exhaustive"]
    layers = [re.split(" [|:] ", layer) for layer in loop["layers"]]
    page = (ROOT / "docs" / "explanation" / "the-house.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = readme.partition("```text\nsrc/fairlead/\n")[2].partition("```")[0]
    assert {room for layer in layers for room in layer} == rooms | faces
    assert set(re.findall(r"^\| `fairlead\.(\w+)` \|", page, re.MULTILINE)) == faces
    assert set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == rooms
    assert set(re.findall(r"^  (\w+)/ ", tree, re.MULTILINE)) == rooms
    order = " < ".join(layer if re.fullmatch(r"\w+", layer) else f"({layer})" for layer in reversed(loop["layers"]))
    assert f"`{order}`" in page
    assert loop["name"] == f"the loop: {order}"
    assert Path(fairlead.__file__).parent == PACKAGE


def test_import_contracts_hold() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_module_can_be_read_in_one_sitting() -> None:
    lengths = {name_of(path): path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert not {name: lines for name, lines in lengths.items() if lines >= MAX_LINES and name not in LONG}, (
        "they are two things each"
    )


def test_every_module_opens_with_what_it_is_for() -> None:
    silent = []
    for path in MODULES:
        module = read_module(path)
        first = module.docstring.partition("\n\n")[0].splitlines()
        if module.first_line != 1 or not 1 <= len(first) <= MAX_OPENING_LINES:
            silent.append(name_of(path))
    assert not silent, f"their first paragraph is absent or longer than {MAX_OPENING_LINES} lines"


def test_what_a_module_leaves_to_others_is_there() -> None:
    """What stands in brackets after "Not here:" is a module, or a public name of the package or its tests."""
    known = {part for path in MODULES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    known |= {path.stem for folder in SIBLINGS for path in (ROOT / folder).rglob("*.py")} | SIBLINGS | {"fairlead"}
    known |= {name for path in MODULES for name in read_module(path).classes}
    known |= {function.name for path in MODULES for function in read_module(path).functions}
    gone = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for sentence in re.findall(r"Not here:(.*?)\.(?:\s|$)", read_module(path).docstring, re.DOTALL)
        for group in re.findall(r"\(([^()]*)\)", sentence)
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", group)
        if not name.isupper() and not set(name.split(".")) <= known
    ]
    assert not gone, "name what is there now"


def test_public_functions_and_classes_have_docstrings() -> None:
    silent = [f"{name_of(path)}: {name}" for path in MODULES for name in read_module(path).undocumented]
    assert not silent


def test_no_name_without_meaning() -> None:
    files = [name_of(path) for path in MODULES if EMPTY_NAMES & set(path.stem.split("_"))]
    classes = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for name in read_module(path).classes
        if name.lower().endswith(EMPTY_ENDINGS)
    ]
    assert not files + classes, "name it after what it does"


def test_nothing_heavy_is_imported_on_import() -> None:
    heavy = [
        f"{name_of(path)}:{line}: {name}"
        for path in MODULES
        if not KERNEL.fullmatch(path.stem)
        for line, name, on_import in read_module(path).imports
        if on_import and (KERNEL.fullmatch(name.rpartition(".")[2]) or name.partition(".")[0] in HEAVY)
    ]
    assert not heavy, "import it inside the function that needs it"


def test_the_package_imports_nothing_that_is_not_installed_with_it() -> None:
    outside = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        for _, name, _ in read_module(path).imports
        if name.partition(".")[0] in {"", *SIBLINGS}
    ]
    assert not outside, "absolute imports of installed packages only"


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_locks_name_no_index_and_hash_everything() -> None:
    locks = sorted(ROOT.glob("requirements*.lock"))
    assert [lock.name for lock in locks] == ["requirements-bench.lock", "requirements-dev.lock", "requirements.lock"]
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        assert "-index-url" not in text
        for block in text.replace("\\\n", " ").splitlines():
            if block and block[0].isalnum():
                assert "==" in block, block
                assert "--hash=sha256:" in block, block


def test_locks_agree() -> None:
    """`make test` may install over what `make run` installed without changing it."""
    runtime, whole = (_pins(ROOT / name) for name in ("requirements.lock", "requirements-dev.lock"))
    assert runtime
    assert runtime.keys() <= whole.keys()
    # A marker may be narrower in the smaller lock; the versions must be the same.
    assert {name: runtime[name] for name in runtime} == {name: whole[name] for name in runtime}


def _pins(lock: Path) -> dict[str, set[str]]:
    pins: dict[str, set[str]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line and line[0].isalnum():
            name, _, rest = line.partition("==")
            pins.setdefault(name, set()).add(rest.split()[0])
    return pins
