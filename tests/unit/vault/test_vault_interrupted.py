"""Interrupted anywhere in what it does, a vault with a mechanism of each kind loses, doubles and forgives nothing."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.interrupts import Interrupt
from support.parts import make_often
from support.torture import ASKED, Witness, create, facts, perform
from support.vaults import crash
from treering.vault import members
from treering.vault.vault import Vault

TIMES = 200 if "TORTURE_KILLS" in os.environ else 3
"""At how many steps, equally far apart, each operation is interrupted. (There are up to some ten thousand.)"""

PACKAGES = ("budget", "boxes", "mechanisms", "schedulers", "trusted", "vault")
HOUSE = Path(tr.__file__).parent
FILES = tuple(str(path) for package in PACKAGES for path in sorted((HOUSE / package).rglob("*.py")))

OPERATIONS: dict[str, dict[str, Any]] = {
    "append": {"work": "append", "rows": 500},
    "add": {"work": "add"},
    **{f"ask {name}": {"work": "ask", "mechanism": name, "count": 3} for name in ASKED},
}

# An interrupt that falls while a generator is dropped is handed to sys.unraisablehook.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("interrupted") / "vault"
    create(place)
    return place


@pytest.fixture(autouse=True)
def condensing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part with every append, and merged at once; a checkpoint with every answer."""
    make_often(monkeypatch, sealed=1, merged=2, large=400)
    monkeypatch.setattr(members, "_REPLAYED", 1.0)


def lived(place: Path, given: dict[str, Any], interrupt: Interrupt, *, on: bool) -> list[Any]:
    """What a session said that was interrupted in an operation. If it goes ``on``, it tries the same again."""
    vault = Vault.open(place)
    said: list[Any] = [["open", {"facts": facts(vault)}], ["begin", given]]
    result, refusal = None, ""
    with suppress(KeyboardInterrupt), interrupt:
        result = perform(vault, given)
    if on and result is None:
        try:
            result = perform(vault, given)
        except tr.TreeringError as error:
            refusal = str(error)
    assert not refusal or "interrupted" in refusal or "extra5" in refusal  # It stopped, or was done.
    if result is not None:
        said.append(["end", {**given, "result": result, "facts": facts(vault)}])
    crash(vault)
    return said


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_anywhere(original: Path, name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"seed": 5, "key": "one", **OPERATIONS[name]}
    counting = Interrupt(10**9, *FILES)
    Witness(place := Path(shutil.copytree(original, tmp_path / "whole"))).check(lived(place, given, counting, on=False))
    stride = -(-counting.passed // TIMES)
    for number in count():
        place = Path(shutil.copytree(original, tmp_path / f"{number}"))
        interrupt = Interrupt(number // 2 * stride + stride // 2, *FILES)
        Witness(place).check(lived(place, given, interrupt, on=number % 2 == 1))
        shutil.rmtree(place)
        if not interrupt.fell:
            break
    assert number > 1
