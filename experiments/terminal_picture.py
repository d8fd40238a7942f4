"""What `treering plan`, `status` and `ask` look like at a terminal: the pictures in the README.

    python -m experiments.terminal_picture [--quick] [--seed N]

Runs the demonstration until the middle of May, then the commands, each at a terminal of its own, and draws what they
print. Claimed: it fits the terminal. With --quick nothing is written.
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from experiments.claims import Claims
from experiments.options import options
from treering.demo.story import live_through_the_year

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, DAYS = 110, 134
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace(
    "Fira Code, ", ""
)
"""Rich's own would have the reader's browser fetch a font."""

PICTURES: dict[str, Sequence[str]] = {
    "plan": (
        "plan",
        "--cells",
        "65536",
        "--rows",
        "1000000",
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
    ),
    "status": ("status", "flights.treering"),
    "ask": (
        "ask",
        "flights.treering",
        "--sql",
        "SELECT origin, COUNT(*) FROM flights WHERE delay >= 15 GROUP BY origin",
    ),
}


def at_terminal(arguments: Sequence[str], folder: Path) -> str:
    """What a command prints at a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update({"COLUMNS": str(WIDTH), "LINES": "60", "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        os.execv(sys.executable, [sys.executable, "-c", "from treering.cli.main import main; main()", *arguments])
    printed = b""
    with suppress(OSError):  # how a terminal says that nobody writes to it any more
        while chunk := os.read(terminal, 65536):
            printed += chunk
    os.close(terminal)
    os.waitpid(child, 0)
    return printed.decode().replace("\r\n", "\n")


def drawn(command: str, text: str) -> str:
    """The text as a picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(text.rstrip()))
    return console.export_svg(title=command, code_format=FORMAT, unique_id=command.split()[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw all of them."""
    given, claims = options(__doc__, arguments), Claims()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        live_through_the_year(folder / "flights.treering", lambda *_: None, DAYS)
        for picture, command in PICTURES.items():
            text = at_terminal(command, folder)
            claims.at_most(
                f"treering {picture}: widest line", max(map(len, Text.from_ansi(text).plain.split("\n"))), WIDTH
            )
            if not given.quick:
                (IMAGES / f"terminal_{picture}.svg").write_text(drawn(f"treering {picture}", text), encoding="utf-8")
    return claims.exit_code()


if __name__ == "__main__":
    sys.exit(main())
