"""Which tests are run against a mutant, and in which order; and how it is found out what a test reaches."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mutants.changes import Change, Place
from mutants.reach import Reach, scope_of
from mutants.tests import PYTEST, Map, belongs, environment, importers
from support.repository import ROOT

OWN = "tests/unit/vault/test_parts.py"
OTHER = "tests/contract/test_vault_contract.py"


def made(seconds: float, *reached: str, starts: bool = False, passed: bool = True) -> dict[str, object]:
    return {
        "seconds": seconds,
        "starts": starts,
        "passed": passed,
        "reached": [["vault/parts.py", scope] for scope in reached],
    }


FOUND = {
    "tests": {
        f"{OWN}::slow": made(5.0, "Parts.read"),
        f"{OWN}::fast": made(1.0, "Parts.read"),
        f"{OWN}::aside": made(0.1),
        f"{OTHER}::reaching": made(0.5, "Parts.read"),
        f"{OTHER}::starting": made(2.0, starts=True),
        f"{OTHER}::broken": made(0.1, "Parts.read", passed=False),
        "tests/unit/x/test_far.py::importing": made(0.3),
        "tests/unit/x/test_foreign.py::foreign": made(0.1),
        "tests/unit/x/test_table.py::made": made(0.2),
    },
    "collected": {"tests/unit/x/test_table.py": [["vault/parts.py", "Parts.write"]]},
}
IMPORTED = {file: {"vault/parts.py"} for file in (OWN, OTHER, "tests/unit/x/test_far.py", "tests/unit/x/test_table.py")}


def stages(scope: str, budget: float = 100.0, *, at_import: bool = False) -> list[list[str]]:
    place = Place("vault/parts.py", scope, at_import, 1, (Change(0, 1, ""),))
    found = Map(FOUND, IMPORTED).stages(place, budget)
    return [[test.name.split("::")[1] for test in stage.tests] for stage in found]


def test_the_modules_own_tests_come_first_and_the_fastest_of_them() -> None:
    assert stages("Parts.read") == [["fast", "slow"], ["reaching"], ["aside", "starting"], ["made", "importing"]]


def test_a_stage_has_a_budget() -> None:
    assert stages("Parts.read", 1.2) == [["fast"], ["reaching"], ["aside"], ["made"]]


def test_what_a_file_reaches_while_it_is_collected_its_tests_reach() -> None:
    assert stages("Parts.write")[0] == ["made"]


def test_what_runs_at_import_is_everybodys_who_imports() -> None:
    named = {name for stage in stages("Parts", at_import=True) for name in stage}
    assert named == {"slow", "fast", "aside", "reaching", "starting", "importing", "made"}


def test_a_test_that_does_not_pass_without_mutants_is_left_out() -> None:
    assert Map(FOUND, IMPORTED).left_out == [f"{OTHER}::broken"]


@pytest.mark.parametrize(
    ("test", "belonging"),
    [
        ("tests/unit/trusted/ledger/codec/test_events.py::test_x", True),
        ("tests/unit/trusted/ledger/codec/test_events_more.py::test_x", True),
        ("src/treering/trusted/ledger/codec/events.py::treering.trusted.ledger.codec.events", True),
        ("tests/unit/vault/test_events.py::test_x", False),
        ("tests/contract/test_events.py::test_x", False),
    ],
)
def test_which_tests_mirror_a_module(test: str, belonging: bool) -> None:
    assert belongs(test, "trusted/ledger/codec/events.py") is belonging


def test_a_file_imports_what_its_helpers_import() -> None:
    codec = "tests/unit/trusted/ledger/codec/test_events.py"
    found = importers(ROOT, [codec, "tests/unit/budget/test_cost.py", "src/treering/budget/cost.py"])
    assert "trusted/ledger/codec/events.py" in found[codec]
    assert "budget/cost.py" in found["tests/unit/budget/test_cost.py"]
    assert "budget/cost.py" in found["src/treering/budget/cost.py"]
    assert "vault/vault.py" not in found["src/treering/budget/cost.py"]


@pytest.mark.parametrize(
    ("qualified", "scope"),
    [
        ("f", "f"),
        ("C.m", "C.m"),
        ("C.m.<locals>.inner", "C.m.inner"),
        ("C.m.<locals>.<listcomp>", "C.m"),
        ("f.<locals>.<lambda>.<locals>.<genexpr>", "f"),
        ("<module>", ""),
    ],
)
def test_code_belongs_to_a_function(qualified: str, scope: str) -> None:
    assert scope_of(qualified) == scope


def test_calls_are_seen_in_all_threads() -> None:
    before = sys.gettrace()
    reach = Reach(Path(__file__).parent)

    def called() -> int:
        return sum(each for each in range(3))

    try:
        reach.start()
        stages("Parts.read")
        thread = threading.Thread(target=called)
        thread.start()
        thread.join()
        seen = reach.reached()
    finally:
        sys.settrace(before)
        threading.settrace(before)
    assert ["test_tests.py", "stages"] in seen
    assert ["test_tests.py", "test_calls_are_seen_in_all_threads.called"] in seen
    assert {file for file, _ in seen} == {"test_tests.py"}


def test_examples_that_fail_are_not_made_smaller(tmp_path: Path) -> None:
    """Hypothesis looks at the first that fails again, and at no others."""
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import given, strategies as st\n"
        "@given(st.integers(17, 10**9))\n"
        "def test_it(number):\n"
        "    with open('seen', 'a') as file:\n"
        "        file.write(f'{number}\\n')\n"
        "    assert number < 18\n"
    )
    subprocess.run([*PYTEST, "test_it.py"], cwd=tmp_path, env=environment(ROOT), check=False, capture_output=True)
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert len([number for number in seen if number >= 18]) <= 3
