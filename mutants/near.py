"""The tests by where they lie and what they name: a first answer without the map, for which all of them must be run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mutants.changes import Place
from mutants.tests import Case, Stage, belongs, files_with_tests

ENOUGH: Final = 5
"""The least score of a file that is run."""
MOST: Final = 9
"""The most files of the second stage."""
ELSEWHERE: Final = ("tests/durability", "tests/engines")
"""Not run: they start processes, and take long."""


class Near:
    """Whole files of tests: first those of the module itself, then the nearest others. Offers what `Map` does."""

    left_out: tuple[str, ...] = ()

    def __init__(self, copy: Path) -> None:
        found = (path for path in files_with_tests(copy) if not path.relative_to(copy).as_posix().startswith(ELSEWHERE))
        self._texts = {path.relative_to(copy).as_posix(): path.read_text() for path in found}
        self.tests = {name: Case(name, float(len(text)), False) for name, text in self._texts.items()}

    def stages(self, place: Place, budget: float) -> list[Stage]:
        """The tests for a place, in the order they are run. How long they take is not known: each stage is taken to
        need ``budget`` seconds."""
        own = {name for name in self._texts if belongs(name, place.file)}
        scores = {name: self._score(name, place) for name in self._texts if name not in own}
        near = sorted((name for name, score in scores.items() if score >= ENOUGH), key=lambda name: -scores[name])
        first = sorted(own, key=lambda name: (not name.startswith("src/"), len(self._texts[name])))
        stages = [(first, True), (near[:MOST], False)]
        return [Stage(_cases(names, budget), reaching=reaching) for names, reaching in stages if names]

    def _score(self, name: str, place: Place) -> int:
        """How near a file of tests is: what it names, and where it lies."""
        text, (folder, _, module) = self._texts[name], place.file.removesuffix(".py").rpartition("/")
        words = [word for word in place.scope.split(".") if word and not word.startswith("__")]
        return (
            4 * (f"treering.{folder}.{module}".replace("/", ".") in text)
            + 3 * any(word in text for word in words[-1:])
            + 2 * any(word in text for word in words[:1])
            + 2 * (f"/test_{module}" in name)
            + 3 * name.startswith(f"tests/unit/{folder}/")
            + name.startswith(f"tests/unit/{folder.split('/')[0]}/")
        )


def _cases(names: list[str], budget: float) -> tuple[Case, ...]:
    return tuple(Case(name, budget / len(names), False) for name in names)
