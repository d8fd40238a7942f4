"""Programs that are not Python's, which some tests need: where they are, and which tests are left out without them.

`make system` installs them where it can. On other machines they are used from wherever they are; a test that needs one
which is not there is left out, and the end of the run says how many were. Where `make` has installed them, a program
that is not found is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

POSTGRES: Final = "PostgreSQL's server"
JAVA: Final = "Java 17 to 23"
"""What Spark 4.0 runs on."""
POSTGRES_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
"""Where Debian, Red Hat and PostgreSQL's own makefiles put what they keep off the path."""
JAVA_FOLDERS: Final = ("/usr/lib/jvm/*/bin",)
CHROMIUM: Final = "Chromium"
CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
NEEDS: Final = "needs "
INSTALLED: Final = "installed"
"""What the environment variable PROGRAMS says where all of them must be there."""


class MissingProgram(Exception):
    """A program is not on this machine. A test that meets this is left out, not failed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{NEEDS}{name}, which was not found on this machine")


def postgres_programs(folders: Iterable[str] = POSTGRES_FOLDERS) -> Path:
    """The folder of initdb and pg_ctl: the path's, or else the latest version's of those in the usual places."""
    for folder in (*_path(), *_places(folders)):
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise MissingProgram(POSTGRES)


def java_home(folders: Iterable[str] = JAVA_FOLDERS) -> Path:
    """The folder that Spark is given as JAVA_HOME: the environment's, the path's, or one of the usual places."""
    homes = [Path(home)] if (home := os.environ.get("JAVA_HOME")) else []
    path = [Path(java).resolve().parents[1]] if (java := shutil.which("java")) else []
    for folder in (*homes, *path, *(place.parent for place in _places(folders))):
        if 17 <= _java_version(folder / "bin" / "java") <= 23:
            return folder
    raise MissingProgram(JAVA)


def chromium(names: Iterable[str] = CHROMIUM_NAMES) -> Path:
    """The browser that tests of the server's page open it in: one of these names on the path."""
    found = (shutil.which(name) for name in names)
    for each in found:
        if each is not None:
            return Path(each)
    raise MissingProgram(CHROMIUM)


def leaving_out() -> Generator[None, object, object]:
    """Around a step of a test: leave the test out if it needs a program that is not here, and need not be."""
    try:
        return (yield)
    except MissingProgram as missing:
        if os.environ.get("PROGRAMS") == INSTALLED:
            raise
        pytest.skip(str(missing))


def left_out(reasons: Iterable[str]) -> list[str]:
    """Of the reasons why tests were skipped, those for want of a program: a line for each program."""
    wanting = Counter(reason[reason.index(NEEDS) :] for reason in reasons if NEEDS in reason)
    return [f"left out: {count} test{'s' * (count > 1)}: {reason}" for reason, count in sorted(wanting.items())]


def _path() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)


def _places(patterns: Iterable[str]) -> list[Path]:
    """What is there of these, the highest version first."""
    found = [path for pattern in patterns for path in Path("/").glob(pattern.removeprefix("/"))]
    return sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], reverse=True)


def _java_version(java: Path) -> int:
    """The version of a Java, 0 for what is none."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return int(found[1]) if (found := re.search(r'version "(\d+)', said)) else 0
