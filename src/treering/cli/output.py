"""What the commands share: output, numbers in options, opening vaults, and failures.

*Output*: rich tables at a terminal, plain columns in a pipe, JSON on demand.

*Numbers* as people write them on a command line: 1000000, 1_000_000, 1,000,000, 1e6, 2^20. (typer passes defaults,
which are numbers already, to the same functions.)

*Failures*: one line on stderr and an exit code, never a traceback.

    2  bad input: a flag, a value, a path, a schema, a question, rows that do not fit
    3  the privacy budget does not cover it
    1  anything else
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, TypeAlias

import typer

from treering.errors import (
    BudgetExceeded,
    DataError,
    GuaranteeError,
    Halted,
    NotAVault,
    ParameterError,
    QueryError,
    SchemaError,
    TreeringError,
)
from treering.words import readable, reason

if TYPE_CHECKING:
    from rich.console import Console

    from treering.vault.reader import VaultReader
    from treering.vault.vault import Vault

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
"""The option that every command with a result has."""

Advance: TypeAlias = Callable[[int, int], None]
"""A callback for progress: called with what is done and what there is in all."""


class Output:
    """Where a command's result goes."""

    def __init__(self, as_json: bool = False, console: Console | None = None) -> None:
        """With ``as_json`` results are JSON. A ``console`` is used as the terminal; without one, standard output is."""
        self.as_json = as_json
        self._console = console
        if console is None and not as_json and sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def result(self, plain: Mapping[str, Any], show: Callable[[Output], None]) -> None:
        """Write the result: ``plain`` as JSON if that is wanted, otherwise by calling ``show``."""
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
        """A bar of which the share ``part``, in [0, 1], is filled, followed by ``words``."""
        full = round(min(1.0, max(0.0, part)) * width)
        if self._console is None:
            typer.echo(f"[{'#' * full}{'.' * (width - full)}] {words}")
            return
        from rich.text import Text

        colour = "red" if part > 0.9 else "yellow" if part > 0.6 else "green"
        self._console.print(Text.assemble(("█" * full, colour), ("░" * (width - full), "dim"), f" {words}"))


def warn(text: str) -> None:
    """Write a line for people to stderr, apart from the result."""
    typer.echo(text, err=True)


@contextmanager
def progress(words: str, unit: str = "") -> Iterator[Advance]:
    """A bar on stderr with the rate, if it has a unit, and the time left; at a terminal only."""
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
            rate = f"{done / elapsed:,.0f} {unit}/s" if elapsed and unit else ""
            shown.update(task, completed=done, total=total, rate=rate)

        yield advance


def _silent(done: int, total: int) -> None:
    """Show no progress."""


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


# -- numbers in options ------------------------------------------------------------------------------------------------


FOR_EVER = ("inf", "infinity", "forever", "ever")
STILL = ("none", "still", "static")


def number(text: str | float) -> float:
    """An option's text as a finite number.

    >>> number("1,000,000"), number("2^16"), number("1e-9")
    (1000000.0, 65536.0, 1e-09)
    """
    plain = str(text).strip().replace(",", "").replace("_", "")
    power = re.fullmatch(r"(\d{1,9})\^(\d{1,3})", plain)
    try:
        value = float(int(power[1]) ** int(power[2])) if power else float(plain)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a number, such as 1000000, 1e6 or 2^20") from None
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a finite number")
    return value


def count(text: str | float) -> int:
    """An option's text as a whole number.

    >>> count("1e6"), count("2^62")
    (1000000, 4611686018427387904)
    """
    value = number(text)
    if not value.is_integer():
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(value)


def endless(text: str | float) -> float:
    """An option's text as a whole number, or "inf" for infinity."""
    return math.inf if str(text).strip().lower() in FOR_EVER else float(count(text))


def last_size(text: str | float) -> float:
    """The largest size that matters: a number, "inf" for ever, "none" if the data do not grow (then NaN)."""
    return math.nan if str(text).strip().lower() in STILL else endless(text)


# -- vaults ------------------------------------------------------------------------------------------------------------


VaultPath: TypeAlias = Annotated[Path, typer.Argument(metavar="VAULT", help="The vault's folder.", show_default=False)]
MechanismName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which of the vault's mechanisms. [default: the first]")
]
OnInvalidFlag: TypeAlias = Annotated[
    str, typer.Option(metavar="refuse|drop", help="What to do about rows that do not fit the schema.")
]


def check_vault(path: Path) -> None:
    """Raise if there is no folder at ``path``, before the package is loaded."""
    if not path.exists():
        raise typer.BadParameter(f"there is no vault at {path}; `treering create` makes one")
    if not path.is_dir():
        raise typer.BadParameter(f"{path} is a file; a vault is a folder")


@contextmanager
def writing(path: Path) -> Iterator[Vault]:
    """The vault at ``path``, open for asking and appending."""
    check_vault(path)
    from treering.vault.vault import Vault

    with Vault.open(path) as vault:
        yield vault


def reading(path: Path) -> VaultReader:
    """The vault at ``path``, open for reading; another process may be writing to it."""
    check_vault(path)
    from treering.vault.vault import Vault

    return Vault.read(path)


def origin(path: Path) -> dict[str, Any]:
    """How a vault was made: the first entry of its ledger, which is public and never changes."""
    made: dict[str, Any] = next(reading(path).ledger())["body"]
    return made


def table_of(made: dict[str, Any]) -> str | None:
    """The table of another engine in which a vault's rows stay: its address, or its name if it has none. None if the
    vault keeps its rows itself."""
    source = made["source"]
    return None if source is None else source["address"] or source["identity"]


def refuse_or_drop(given: str) -> Literal["refuse", "drop"]:
    """The value of --on-invalid, checked."""
    if given not in ("refuse", "drop"):
        raise typer.BadParameter('--on-invalid is "refuse" or "drop"')
    return "drop" if given == "drop" else "refuse"


def amount(value: float) -> str:
    """An amount of budget as text; amounts up to 1e-15, which are rounding errors, are 0.

    >>> amount(0.12345678), amount(2e-18)
    ('0.1235', '0')
    """
    return readable(value) if value > 1e-15 else "0"


def unit(name: str, value: float) -> str:
    """An amount of budget with its unit, as text."""
    return f"{name} {amount(value)}"


def left(costs: Mapping[str, Any]) -> str:
    """What is left of the promise, in words: a histogram that is paid for answers for ever, though nothing is left."""
    if costs["settled"] and amount(costs["remaining"]) == "0":
        return "all further questions are free"
    words = f"{unit(costs['unit'], costs['remaining'])} left of {amount(costs['total'])}"
    return words if costs["unit"] == "epsilon" else f"{words} (epsilon {readable(costs['epsilon'])})"


# -- failures ----------------------------------------------------------------------------------------------------------


BAD_INPUT: Final = 2
BUDGET: Final = 3
OTHER: Final = 1
INTERRUPTED: Final = 130

DEBUG: Final = "TREERING_TRACEBACK"
"""The environment variable that makes a failing command show its traceback."""

_CODES: Final[tuple[tuple[type[TreeringError], int], ...]] = (
    (BudgetExceeded, BUDGET),
    (Halted, BUDGET),
    (ParameterError, BAD_INPUT),
    (SchemaError, BAD_INPUT),
    (QueryError, BAD_INPUT),
    (DataError, BAD_INPUT),
    (GuaranteeError, BAD_INPUT),
    (NotAVault, BAD_INPUT),
)


def code_of(error: Exception) -> int:
    """The exit code of an error."""
    if isinstance(error, TreeringError):
        return next((code for kind, code in _CODES if isinstance(error, kind)), OTHER)
    if isinstance(error, typer.TyperException):
        return BAD_INPUT
    return OTHER


def message_of(error: Exception) -> str:
    """What is wrong, in plain words: one line; at a terminal also the lines that point into a query.

    The text of an unexpected error is not shown: it may quote a private value.
    """
    if isinstance(error, typer.BadParameter) and error.param is None:
        return _one_line(error.message)  # Raised by a command, not by one flag: the message is complete.
    if isinstance(error, typer.TyperException):
        return _one_line(error.format_message()) + _where_help_is(error)
    if isinstance(error, TreeringError):
        text = _spoken("\n".join([_named(error), *getattr(error, "__notes__", ())]))
        return text if sys.stderr.isatty() else _one_line(text)
    if isinstance(error, OSError):
        named = f": {error.filename}" if error.filename is not None else ""
        return f"{reason(error)}{named}"
    return f"an unexpected {type(error).__name__}; set {DEBUG}=1 to see where"


_OPTIONS: Final = {
    **{name: f"--{name}" for name in ("epsilon", "delta", "alpha", "beta", "mechanism", "share", "person", "rows")},
    **{name: f"--{name}" for name in ("within", "key", "head", "order", "table", "target", "features", "loss", "name")},
    **{name: f"--{name}" for name in ("radius", "every", "validation", "pace", "box", "ways", "cells", "horizon")},
    **{name: f"--{name}" for name in ("delimiter", "encoding", "seed")},
    "rows_per_person": "--rows-per-person",
    "per_person": "--per-person",
    "measure_first": "--guard-only",
    "queries": "--questions",
    "kind": "--mechanism",
    "size": "--rows",
    "path": "the file's name",
}
"""What the command line calls the parameters of the package, by the parameter's name."""

_SAID: Final = (
    (r'on_invalid="(\w+)"', r"--on-invalid \1"),
    (r"\b(other|missing)=True", r"\1 = true"),
    (r"\b(share|alpha|beta|epsilon|delta)=(\d)", r"--\1 \2"),
    (r"`Vault\.read`, ", ""),
    (r"\brows_per_person\b", "--rows-per-person"),
    (r"\b([a-z]+)\(\)", r"\1"),
    (r"--target and features", "--target and --features"),
    (r"add one: vault\.add\('rings', share\)", "a vault made with --mechanism rings has one"),
)
"""What the package calls things, and what the command line and the schema's file call them."""


def _named(error: TreeringError) -> str:
    """The error's text; a parameter that is an option goes by the option's name."""
    if isinstance(error, ParameterError) and error.parameter in _OPTIONS:
        said = str(error).replace(error.parameter, _OPTIONS[error.parameter], 1)
        return re.sub(r"(?<= is no option of )(.*; there are )(.*)", lambda found: found[1] + _options(found[2]), said)
    return str(error)


def _options(names: str) -> str:
    """The options of a mechanism, as the command line calls them."""
    return ", ".join(_OPTIONS[name] for name in names.split(", ") if name in _OPTIONS)


def _spoken(text: str) -> str:
    """A message of the package in the words of the command line."""
    for python, words in _SAID:
        text = re.sub(python, words, text)
    return text


def _where_help_is(error: typer.TyperException) -> str:
    """Which help to read about a command that was typed in another way than it understands."""
    context = getattr(error, "ctx", None)
    return "" if context is None else f" (See `{context.command_path} --help`.)"


def fail(error: Exception) -> NoReturn:
    """Write what went wrong to stderr, and exit."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    typer.echo(f"treering: {message_of(error)}", err=True)
    sys.exit(code_of(error))


def _one_line(text: str) -> str:
    """The text in one line, without the lines that point into a query, which are indented. Lines that were sentences
    stay sentences."""
    kept = [line.strip() for line in text.splitlines() if not line.startswith("  ")]
    *before, last = [line for line in kept if line] or [""]
    return " ".join([*(line if re.search(r"[.:;,?!]\)?$", line) else f"{line}." for line in before), last])
