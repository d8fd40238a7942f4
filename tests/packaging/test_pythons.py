"""Which Pythons `make pythons` and `make newcomer` find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import pythons
from support.pythons import candidates, main, of_this_machine, version_of


def interpreter(path: Path, says: str) -> Path:
    """A program that answers like an interpreter of some version, or does whatever else it is told."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def test_one_for_every_minor_version_the_latest_patch_of_each(tmp_path: Path) -> None:
    system = interpreter(tmp_path / "bin" / "python3.12", "echo 3 12 4")
    interpreter(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3", "echo 3 12 1")
    late = interpreter(tmp_path / "pyenv" / "versions" / "3.13.10" / "bin" / "python3", "echo 3 13 10")
    interpreter(tmp_path / "pyenv" / "versions" / "3.13.9" / "bin" / "python3", "echo 3 13 9")
    interpreter(tmp_path / "pyenv" / "versions" / "3.10.2" / "bin" / "python3", "echo 3 10 2")
    found = pythons.pythons(candidates([tmp_path / "bin"], [tmp_path / "pyenv"]))
    assert found == {(3, 12): system, (3, 13): late}


def test_what_is_no_released_interpreter_is_passed_over(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.11", "exit 127")
    interpreter(tmp_path / "bin" / "python3.12", "true")
    interpreter(tmp_path / "bin" / "python3.13-config", "echo 3 13 0")
    interpreter(tmp_path / "pyenv" / "shims" / "python3.14", "echo 3 14 0")
    (tmp_path / "bin" / "python3.15").write_text("not a program")
    found = candidates([tmp_path / "bin", tmp_path / "pyenv" / "shims"], [tmp_path / "pyenv"])
    assert pythons.pythons(found) == {}


def test_an_environment_stands_for_the_python_it_was_made_with(tmp_path: Path) -> None:
    (tmp_path / "python3.11").symlink_to(sys.executable)
    assert pythons.pythons([tmp_path / "python3.11"]) == {sys.version_info[:2]: Path(sys.executable).resolve()}


def test_the_running_python_is_always_found() -> None:
    found = of_this_machine()
    assert (version_of(found[sys.version_info[:2]]) or ()) >= sys.version_info[:3]


def test_what_it_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = {(3, 11): Path("a b"), (3, 12): Path("c")}
    monkeypatch.setattr(pythons, "of_this_machine", lambda: found)
    assert [main(), main("newest"), main("3.11"), main("3.14")] == [0, 0, 0, 1]
    assert capsys.readouterr().out.splitlines() == ["3.11 a b", "3.12 c", "c", "a b"]
