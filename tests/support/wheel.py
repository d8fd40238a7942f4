"""The wheel of this checkout, and an environment that has nothing but it and what it depends on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.repository import ROOT, files

BUILT_FROM: Final = ("src", "pyproject.toml", "README.md", "LICENSE")
UV: Final = Path(sys.executable).parent / "uv"


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Installed:
    """An environment outside of the checkout, and a folder to work in."""

    environment: Path
    folder: Path

    def run(self, program: str, *arguments: object) -> Ended:
        """Run a program of the environment, in the folder, without anything of the checkout or the tests in reach."""
        known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        done = subprocess.run(
            [self.environment / "bin" / program, *map(str, arguments)],
            cwd=self.folder,
            env={**known, "XDG_STATE_HOME": str(self.folder / "state")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def treering(self, *arguments: object) -> str:
        """What a command prints; it must succeed."""
        done = self.run("treering", *arguments)
        assert done.code == 0, done.err
        return done.out

    def python(self, *lines: str) -> Ended:
        """Run a program's text, after ``import treering as tr``."""
        return self.run("python", "-c", "\n".join(["import treering as tr", *lines]))


def build_wheel(folder: Path) -> Path:
    """Build the wheel with the tests' own setuptools, from a copy: a checkout may hold remains of earlier builds."""
    copy = folder / "checkout"
    for path in files():
        name = path.relative_to(ROOT)
        if name.parts[0] in BUILT_FROM:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy / name)
    _uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist", copy)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Installed:
    """An environment as ``pip install treering`` makes it, with the versions that the lock has."""
    environment = folder / "environment"
    (folder / "work").mkdir()
    _uv("venv", "--python", sys.executable, environment)
    locked = ROOT / "requirements" / "runtime.txt"
    _uv("pip", "install", "--python", environment / "bin" / "python", "--constraint", locked, wheel)
    return Installed(environment, folder / "work")


def _uv(*arguments: object) -> None:
    done = subprocess.run(
        [UV, "--quiet", *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
