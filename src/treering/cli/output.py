"""What commands show: rich tables at a terminal, plain columns in a pipe, JSON on demand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
"""The option that every command with a result has."""

Advance: TypeAlias = Callable[[int, int], None]
"""Told how much is done and how much there is."""


class Output:
    """Where a command's result goes."""

    def __init__(self, as_json: bool = False, console: Console | None = None) -> None:
        """A ``console`` is for pictures of a terminal; without one, standard output decides."""
        self.as_json = as_json
        self._console = console
        if console is None and not as_json and sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def result(self, plain: Mapping[str, Any], show: Callable[[Output], None]) -> None:
        """The result as JSON if that is wanted, else as ``show`` shows it."""
        if self.as_json:
            typer.echo(json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False))
        else:
            show(self)

    def line(self, text: str = "", style: str = "") -> None:
        """One line or paragraph, in a style that only a terminal shows."""
        if self._console is None:
            typer.echo(text)
        else:
            self._console.print(text, style=style or None, markup=False, highlight=False)

    def table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        right: Sequence[int] = (),
        styles: Sequence[str] = (),
    ) -> None:
        """A table; the columns ``right`` are aligned to the right, row i has style ``styles[i]`` at a terminal."""
        if self._console is None:
            typer.echo(_columns(heads, rows, right))
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        for place, head in enumerate(heads):
            table.add_column(head, justify="right" if place in right else "left", overflow="fold")
        for place, row in enumerate(rows):
            table.add_row(*map(Text, row), style=styles[place] if place < len(styles) else "")
        self._console.print(table)

    def bar(self, part: float, words: str, width: int = 40) -> None:
        """A share of a whole, drawn, and what it is."""
        full = round(min(1.0, max(0.0, part)) * width)
        if self._console is None:
            typer.echo(f"[{'#' * full}{'.' * (width - full)}] {words}")
            return
        from rich.text import Text

        colour = "red" if part > 0.9 else "yellow" if part > 0.6 else "green"
        self._console.print(Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"), f" {words}"))


def warn(text: str) -> None:
    """A line for people, beside the result."""
    typer.echo(text, err=True)


@contextmanager
def progress(words: str, unit: str) -> Iterator[Advance]:
    """A bar on stderr with the rate and the time left, at a terminal only."""
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with shown:
        task = shown.add_task(words, total=None, rate="")

        def advance(done: int, total: int) -> None:
            elapsed = shown.tasks[0].elapsed
            rate = f"{done / elapsed:,.0f} {unit}/s" if elapsed else ""
            shown.update(task, completed=done, total=total, rate=rate)

        yield advance


def _silent(done: int, total: int) -> None:
    """Nobody is watching."""


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """Plain columns, two spaces apart."""
    widths = [max(len(line[place]) for line in [heads, *rows]) for place in range(len(heads))]
    rule = ["-" * width for width in widths]

    def written(line: Sequence[str]) -> str:
        cells = (
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(map(written, [heads, rule, *rows]))
