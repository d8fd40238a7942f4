"""Mutants on trial, in a package of two functions with tests of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.changes import Mutant, mutant, places
from mutants.tests import Map
from mutants.trials import _changed, check, copies, trials

CODE = """def add(one, other):
    return one + other


def count(wanted):
    found = 0
    while found < wanted:
        found += 1
    return found
"""
TESTS = """from treering.sums import add, count


def test_add():
    assert add(1, 0) == 1


def test_count():
    assert count(2) == 2
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "src/treering/__init__.py": "",
        "src/treering/sums.py": CODE,
        "tests/unit/test_sums.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def known(*, reaching: bool = True, **seconds: float) -> Map:
    """The tests, by how long they take; which may not be seen to reach anything."""
    reached = [["sums.py", "add"], ["sums.py", "count"]] if reaching else []
    tests = {
        f"tests/unit/test_sums.py::{name}": {"seconds": each, "starts": False, "passed": True, "reached": reached}
        for name, each in seconds.items()
    }
    return Map({"tests": tests, "collected": {}}, {"tests/unit/test_sums.py": {"sums.py"}})


def mutants(*after: str) -> list[Mutant]:
    found = [mutant(CODE, place, change) for place in places("sums.py", CODE) for change in place.changes]
    return [each for line in after for each in found if each.after == line]


def test_a_mutant_is_caught_by_the_test_that_fails_and_the_next_finds_the_copy_as_it_was(checkout: Path) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    tests = known(test_add=0.1, test_count=0.2)
    tried = mutants("found = 1", "return one - other", "return None")
    with copies(checkout, list(before), 1) as made:
        check(made[0], tests)
        caught = {verdict.mutant: verdict.caught_by for verdict in trials(tried, made, tests, 10.0)}
        assert (made[0] / "src/treering/sums.py").read_text() == CODE
    assert [caught[each] for each in tried] == [
        "",
        "",
        "FAILED tests/unit/test_sums.py::test_add",
        "FAILED tests/unit/test_sums.py::test_count",
    ]
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_a_mutant_that_never_ends_is_caught(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutants.trials.STARTING", 5)
    files = [path for path in checkout.rglob("*") if path.is_file()]
    with copies(checkout, files, 1) as made:
        (verdict,) = trials(mutants("found -= 1"), made, known(test_count=0.1), 10.0)
    assert verdict.caught_by == "no end after 5 s"


@pytest.mark.parametrize(("text", "caught"), [(TESTS, True), (TESTS.replace("== 2", "== 3"), False)])
def test_a_test_that_fails_anyway_catches_nothing(checkout: Path, text: str, caught: bool) -> None:
    (checkout / "tests/unit/test_sums.py").write_text(text)
    files = [path for path in checkout.rglob("*") if path.is_file()]
    with copies(checkout, files, 1) as made:
        (verdict,) = trials(mutants("found = 1")[:1], made, known(reaching=False, test_count=0.1), 10.0)
        assert not verdict.caught_by
        (verdict,) = trials(mutants("return None")[1:], made, known(reaching=False, test_count=0.1), 10.0)
    assert bool(verdict.caught_by) == caught


def test_a_copy_in_which_tests_fail_is_no_place_for_trials(checkout: Path) -> None:
    files = [path for path in checkout.rglob("*") if path.is_file()]
    with copies(checkout, files, 1) as made, pytest.raises(RuntimeError, match="without any mutant"):
        check(made[0], known(test_nothing=0.1))


def test_no_two_mutants_of_a_file_have_the_same_time(checkout: Path) -> None:
    """Otherwise what numba has compiled of one would be taken for another that is as long."""
    file = checkout / "src/treering/sums.py"
    one, other = mutants("return one - other", "found -= 1")
    before, times = file.stat().st_mtime, set()
    for each in (one, other, one):
        with _changed(file, each.change):
            times.add(int(file.stat().st_mtime))
        assert (file.read_text(), file.stat().st_mtime) == (CODE, before)
    assert len(times | {int(before)}) == 4
