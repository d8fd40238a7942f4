"""Programs that are not Python's: found wherever they are, and what is left out without them is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.programs import INSTALLED, MissingProgram, chromium, java_home, left_out, postgres_programs
from support.repository import ROOT


def program(path: Path, says: str = "true") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def postgres(folder: Path) -> Path:
    for name in ("initdb", "pg_ctl", "postgres"):
        program(folder / name)
    return folder


def java(home: Path, version: str) -> Path:
    return program(home / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2").parents[1]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_the_path_comes_before_the_latest_version_of_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [f"{tmp_path}/usual/*/bin"]
    postgres(tmp_path / "usual" / "9" / "bin")
    latest = postgres(tmp_path / "usual" / "15" / "bin")
    program(tmp_path / "usual" / "16" / "bin" / "pg_ctl")  # the client's part alone
    assert postgres_programs(places) == latest
    own = postgres(tmp_path / "own")
    monkeypatch.setenv("PATH", str(own))
    assert postgres_programs(places) == own


def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [f"{tmp_path}/jvm/*/bin"]
    java(tmp_path / "jvm" / "java-25", "25.0.1")
    java(tmp_path / "jvm" / "java-8", "1.8.0_392")
    with pytest.raises(MissingProgram, match="Java 17 to 23, which was not found"):
        java_home(places)
    good = java(tmp_path / "jvm" / "java-17", "17.0.9")
    assert java_home(places) == good
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "11.0.2") / "bin"))
    assert java_home(places) == good
    better = java(tmp_path / "better", "21")
    monkeypatch.setenv("PATH", str(better / "bin"))
    assert java_home(places) == better
    chosen = java(tmp_path / "chosen", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert java_home(places) == chosen


def test_the_browser_is_found_by_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingProgram, match="Chromium, which was not found"):
        chromium()
    monkeypatch.setenv("PATH", str(tmp_path))
    other = program(tmp_path / "google-chrome")
    assert chromium() == other
    own = program(tmp_path / "chromium")
    assert chromium() == own


def test_what_is_left_out_is_counted_by_program() -> None:
    reasons = [f"Skipped: {MissingProgram('Java')}", f"Skipped: {MissingProgram('Perl')}", "Skipped: of no use here"]
    assert left_out([*reasons, *reasons[:1]]) == [
        "left out: 2 tests: needs Java, which was not found on this machine",
        "left out: 1 test: needs Perl, which was not found on this machine",
    ]


@pytest.mark.parametrize(("installed", "ending"), [("", 0), (INSTALLED, 1)])
def test_the_engines_tests_are_left_out_unless_the_programs_should_be_there(
    tmp_path: Path, installed: str, ending: int
) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "engines" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "from support.programs import MissingProgram\n"
        "@pytest.fixture(scope='session')\n"
        "def absent():\n    raise MissingProgram('Perl')\n"
        "def test_a(absent): ...\n"
        "def test_b(absent): ...\n"
        "def test_c():\n    raise MissingProgram('Perl')\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/tests", "PROGRAMS": installed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == ending, run.stdout
    assert ("left out: 3 tests: needs Perl, which was not found on this machine" in run.stdout) == (not installed)
