"""The Pythons of this machine that treering should work with: 3.11 and later, one for every minor version.

A program of its own, without anything but the standard library, so that the Makefile can call it before anything is
installed:

    python tests/support/pythons.py             a line for each, the oldest first: `3.12 PATH`
    python tests/support/pythons.py 3.12        the path of that one
    python tests/support/pythons.py newest      the path of the newest
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

OLDEST: Final = (3, 11)
ASK: Final = """
import sys, sysconfig
usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
if usual and sys.version_info.releaselevel == "final":
    print(*sys.version_info[:3])
"""
"""What an interpreter is asked: its version, if it is a released CPython with the lock that the packages expect."""


def version_of(path: Path) -> tuple[int, ...] | None:
    """The version of an interpreter, or None for what is no released CPython: a shim without a version, for example."""
    try:
        asked = subprocess.run([path, "-I", "-c", ASK], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = asked.stdout.split()
    return tuple(map(int, answer)) if asked.returncode == 0 and len(answer) == 3 else None


def candidates(folders: Iterable[Path], pyenv_roots: Iterable[Path]) -> Iterator[Path]:
    """What may be an interpreter: python3.X in some folders, and every version that pyenv has made.

    pyenv's shims are left out: they are slow, and lead to those versions.
    """
    roots = list(pyenv_roots)
    for folder in folders:
        if folder not in [root / "shims" for root in roots]:
            yield from sorted(path for path in folder.glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    for root in roots:
        yield from sorted(root.glob("versions/3.*/bin/python3"))


def pythons(paths: Iterable[Path]) -> dict[tuple[int, ...], Path]:
    """For every minor version the interpreter of the latest patch, the first found if there are several.

    An environment's Python stands for the one that it was made with.
    """
    found: dict[tuple[int, ...], tuple[tuple[int, ...], Path]] = {}
    for path in dict.fromkeys(path.resolve() for path in paths):
        version = version_of(path)
        if version is not None and version[:2] >= OLDEST and version > found.get(version[:2], ((), path))[0]:
            found[version[:2]] = (version, path)
    return {minor: found[minor][1] for minor in sorted(found)}


def of_this_machine() -> dict[tuple[int, ...], Path]:
    """The running interpreter, those on the path and in /usr/bin, and pyenv's."""
    folders = [Path(folder) for folder in [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin"] if folder]
    roots = [Path.home() / ".pyenv"]
    if pyenv := shutil.which("pyenv"):
        told = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        roots[:0] = [Path(told)] if told else []
    return pythons([Path(sys.executable), *candidates(dict.fromkeys(folders), dict.fromkeys(roots))])


def main(wanted: str | None = None) -> int:
    """Print what was asked for; 1 if there is no such Python."""
    found = {".".join(map(str, minor)): path for minor, path in of_this_machine().items()}
    match wanted:
        case None:
            lines = [f"{minor} {path}" for minor, path in found.items()]
        case "newest":
            lines = [str(path) for path in [*found.values()][-1:]]
        case minor:
            lines = [str(found[minor])] if minor in found else []
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
