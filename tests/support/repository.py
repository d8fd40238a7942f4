"""The checkout: its files, as the tests about the repository itself see them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def files() -> list[Path]:
    """Every file that is tracked, or would be if all were added."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def pages() -> list[Path]:
    """Every page a person reads: README and its like, and docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def make_targets() -> set[str]:
    """The targets that `make help` lists."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    return {line.split(":")[0] for line in lines if ":" in line and "## " in line and line[0].isalpha()}
