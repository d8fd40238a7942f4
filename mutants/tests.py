"""The tests there are: what each reaches, kept in a file and remade for what has changed; and which of them to run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mutants.changes import Place
from mutants.quick import PROFILE
from mutants.reach import FOLDER
from support.imports import closure, imported, imports_of_package, modules

KEPT: Final = ".mutants.json"
"""Where the map is kept, in the checkout; git ignores it."""
FOLDERS: Final = ("src/treering", "tests/unit", "tests/contract", "tests/durability", "tests/engines")
UNLIKELY: Final = 0.2
"""Which part of the budget tests have that import a module and are not seen to use what is changed there."""
WITHOUT: Final = "not postgres and not spark"
"""Which tests, by pytest's -k: a server or Java for each mutant would take too long."""
OURS: Final = "tests/unit/mutants"
HELPERS: Final = ("src/treering", "tests/support", "tests/fixtures")
"""What every test may depend on."""
PYTEST: Final = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "--no-header",
    "-p",
    "mutants.quick",
    f"--hypothesis-profile={PROFILE}",
    "-p",
    "no:cacheprovider",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One test, by pytest's name for it."""

    name: str
    seconds: float
    starts: bool
    """Whether it starts processes, into which we do not see."""

    @property
    def file(self) -> str:
        """The file it is in."""
        return self.name.split("::")[0]


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests that are run in one go, and how long that usually takes."""

    tests: tuple[Case, ...]
    reaching: bool
    """Whether they were seen to reach what is changed."""

    @property
    def seconds(self) -> float:
        """How long they took when the map was made."""
        return sum(test.seconds for test in self.tests)


class Map:
    """Which tests reach a place, and which import its module at all."""

    def __init__(self, found: Mapping[str, Any], imported: Mapping[str, set[str]]) -> None:
        passed = {name: test for name, test in found["tests"].items() if test["passed"]}
        self.left_out = sorted(set(found["tests"]) - set(passed))
        self.tests = {name: Case(name, test["seconds"], test["starts"]) for name, test in passed.items()}
        self._imported = imported
        self._reaching: dict[tuple[str, str], set[str]] = {}
        for name, test in passed.items():
            collected = found["collected"].get(self.tests[name].file, [])
            for file, scope in [*test["reached"], *collected]:
                self._reaching.setdefault((file, scope), set()).add(name)

    def stages(self, place: Place, budget: float) -> list[Stage]:
        """The tests for a place, in the order they are run: those of its own module that reach it; the others that do;
        those that import the module, and lie in its folder or in a file with one that reaches it, or start processes;
        and all others that import it. Each stage takes at most ``budget`` seconds, the last a part of that: the fastest
        tests first."""
        reaching = set() if place.at_import else self._reaching.get((place.file, place.scope), set())
        own = {name for name in reaching if belongs(name, place.file)}
        others = {
            name for name, test in self.tests.items() if place.file in self._imported.get(test.file, set())
        } - reaching
        files = {self.tests[name].file for name in reaching}
        folder = f"tests/unit/{place.file.rpartition('/')[0]}/"
        likely = {
            name
            for name in others
            if name.startswith(folder) or self.tests[name].file in files or self.tests[name].starts
        }
        affordable = [
            Stage(self._fastest(own, budget), reaching=True),
            Stage(self._fastest(reaching - own, budget), reaching=True),
            Stage(self._fastest(likely, budget), reaching=False),
            Stage(self._fastest(others - likely, UNLIKELY * budget), reaching=False),
        ]
        return [stage for stage in affordable if stage.tests]

    def _fastest(self, names: Iterable[str], budget: float) -> tuple[Case, ...]:
        """As many of the tests as fit into so many seconds."""
        chosen: list[Case] = []
        for test in sorted((self.tests[name] for name in names), key=lambda test: (test.seconds, test.name)):
            budget -= test.seconds
            if budget < 0:
                break
            chosen.append(test)
        return tuple(chosen)


def belongs(test: str, file: str) -> bool:
    """Whether a test mirrors a module: it lies where the module lies, and has its name; or is its doctest."""
    folder, _, module = file.removesuffix(".py").rpartition("/")
    path = test.split("::")[0]
    return path.startswith(f"tests/unit/{folder}/test_{module}") or path == f"src/treering/{file}"


# -- the map is made ---------------------------------------------------------------------------------------------------


def load(checkout: Path, copy: Path, workers: int) -> Map:
    """The map, from its file; tests whose file is new or changed are run in the copy, all if the sources changed."""
    kept = checkout / KEPT
    helpers = _digest(path for folder in HELPERS for path in _files(copy / folder))
    digests = {path.relative_to(copy).as_posix(): _digest([path]) for path in files_with_tests(copy)}
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if found.get("helpers") != helpers:
        found = {"helpers": helpers, "digests": {}, "tests": {}, "collected": {}}
    stale = sorted(file for file, digest in digests.items() if found["digests"].get(file) != digest)
    for part in ("tests", "collected"):
        found[part] = {
            name: test
            for name, test in found[part].items()
            if (file := name.split("::")[0]) in digests and file not in stale
        }
    if stale:
        for part, made in _watch(copy, stale, workers).items():
            found[part] |= made
        found["digests"] = digests
        kept.write_text(json.dumps(found))
    return Map(found, importers(copy, digests))


def _watch(copy: Path, files: Sequence[str], workers: int) -> dict[str, dict[str, Any]]:
    """Run the tests of some files with the plugin that watches them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*PYTEST, "-p", "mutants.reach", "-n", str(workers), "--dist", "worksteal", "-k", WITHOUT, *files],
            cwd=copy,
            env={**environment(copy), FOLDER: folder},
            check=False,
            stdout=subprocess.DEVNULL,
        )
        parts = [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]
    tests = {name: test for part in parts for name, test in part["tests"].items()}
    if not tests:
        raise RuntimeError("no test could be run in the copy")
    return {"tests": tests, "collected": {file: seen for part in parts for file, seen in part["collected"].items()}}


def environment(copy: Path) -> dict[str, str]:
    """What a process that runs tests in a copy is given: the copy's modules first, then this package; one core each."""
    folders = [*(copy / folder for folder in ("src", "tests", "")), Path(__file__).resolve().parents[1]]
    path = os.pathsep.join(map(str, folders))
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **alone, "PYTHONPATH": path}


def importers(copy: Path, files: Iterable[str]) -> dict[str, set[str]]:
    """For each file of tests, the files of the package that it imports, directly or not."""
    house = modules(copy / "src")
    helpers = {name: path for name, path in modules(copy / "tests").items() if name.startswith("support.")}
    graph = imports_of_package(copy / "src")
    known = {**house, **helpers}

    def roots(path: Path) -> set[str]:
        """What a file imports. The front offers every name: who imports it may use all."""
        found = imported(path.read_text(), known)
        return found | set(house) if "treering" in found else found

    graph |= {name: roots(path) for name, path in helpers.items()}
    names = {path: name for name, path in house.items()}
    found = {}
    for file in files:
        path = copy / file
        begun = {names[path]} if path in names else roots(path)
        reached = [house[name] for name in closure(graph, *begun) if name in house]
        found[file] = {each.relative_to(copy / "src" / "treering").as_posix() for each in reached}
    return found


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def files_with_tests(copy: Path) -> Iterator[Path]:
    """The files with tests: test_*.py, and modules of the package with doctests."""
    for folder in FOLDERS:
        for path in sorted((copy / folder).rglob("*.py")):
            if copy / OURS in path.parents:
                continue
            if path.name.startswith("test_") or (folder == FOLDERS[0] and ">>> " in path.read_text()):
                yield path
