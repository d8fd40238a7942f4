"""`treering shell`: predicates and SQL over one open vault.

A vault takes longer to open than to ask: here it is opened once. At a terminal there are completion and a history, if
prompt_toolkit is installed (extra ``shell``); in a pipe every line is read and answered, and the first that fails ends
it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.ask import show_notes, show_table
from treering.cli.asking.asked import margin
from treering.cli.output import Output, VaultPath, amount, message_of, unit, writing
from treering.errors import ParameterError, QueryError, TreeringError
from treering.words import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from prompt_toolkit.completion import Completer

    from treering.domain.schema import Schema
    from treering.vault.vault import Vault

HELP: Final = """A predicate counts rows:        origin = 'JFK' AND delay >= 60
A statement gives a table:      SELECT month, COUNT(*) FROM t WHERE delay >= 60 GROUP BY month
EXPLAIN SELECT …                what it would release, and its price: for nothing

\\d               the attributes and their values
\\status          rows, budget, mechanisms
\\plan QUESTION   the price of a question: for nothing
\\within 200      the margin wanted from now on, in rows or as 0.1%; \\within alone: none
\\export FILE     the last table as FILE.csv or FILE.parquet
\\q               leave"""

_STATEMENT: Final = re.compile(
    r"\s*(SELECT|WITH|EXPLAIN|\(|SHOW\s+(TABLES|COLUMNS)\b|DESC(RIBE)?\s+[\w\"]+[\s;]*\Z)", re.IGNORECASE
)
_WORDS: Final = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "HAVING",
    "COUNT(*)",
    "SUM(",
    "AVG(",
    "AND",
)
_WORDS_AFTER: Final = ("OR", "NOT", "IN (", "BETWEEN", "IS NULL", "EXPLAIN")
_COMMANDS: Final = (r"\d", r"\status", r"\plan", r"\within", r"\export", r"\help", r"\q")


_EXAMPLES = """Examples:

\b
  treering shell flights.treering
  treering shell flights.treering --within 200        every answer within ± 200 rows
  treering shell flights.treering < questions.txt     a line each; the first that fails ends it
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(shell)


def shell(
    vault: VaultPath,
    within: Annotated[
        str | None, typer.Option(metavar="ROWS", help="The margin that is wanted: 200 rows, or 0.1%.")
    ] = None,
) -> None:
    """Ask one question after the other.

    Predicates and SQL, with the price before each answer; \\help says what else can be typed.
    """
    with writing(vault) as opened:
        session = Shell(opened, Output())
        if within is not None:
            session.do(rf"\within {within}")
        if sys.stdin.isatty():
            session.talk(lines_typed(opened.schema))
        elif not session.run(line.rstrip("\n") for line in sys.stdin):
            raise typer.Exit(2)


class Shell:
    """One conversation with an open vault."""

    def __init__(self, vault: Vault, out: Output) -> None:
        self._vault = vault
        self._out = out
        self._within: float | None = None
        self._last: pa.Table | None = None

    def talk(self, lines: Iterable[str]) -> None:
        """Answer lines until one asks to leave; what goes wrong is said, and the conversation goes on."""
        self._out.line(f"{counted(self._vault.size, 'row')}. \\help says what can be typed.", "dim")
        for line in lines:
            try:
                if not self.do(line):
                    return
            except (TreeringError, typer.BadParameter, OSError) as error:
                self._out.line(message_of(error), "red")

    def run(self, lines: Iterable[str]) -> bool:
        """Answer lines as a script; False if one failed, which ends it."""
        for place, line in enumerate(lines, 1):
            try:
                if not self.do(line):
                    return True
            except (TreeringError, typer.BadParameter, OSError) as error:
                typer.echo(f"treering: line {place}: {message_of(error)}", err=True)
                return False
        return True

    def do(self, line: str) -> bool:
        """Answer one line; False to leave."""
        text = line.strip().removesuffix(";").strip()
        if text in (r"\q", "quit", "exit"):
            return False
        if text.startswith("\\"):
            self._command(*text[1:].partition(" ")[::2])
        elif _STATEMENT.match(text):
            self._statement(text)
        elif text and not text.startswith("--"):
            self._predicate(text)
        return True

    # -- questions ----------------------------------------------------------------------------------------------------

    def _predicate(self, text: str) -> None:

        (query,) = self._vault.queries([text])
        plan = self._vault.plan([query], within=self._within)
        self._say_price(plan.most, plan.unit)
        (answer,) = self._vault.ask_many([query], within=self._within, plan=plan)
        self._out.line(
            f"{counted(answer.count, 'row')} ± {answer.count_margin:,} of {answer.size:,}  "
            f"({answer.value:.2%} ± {answer.margin:.2%})",
            "bold",
        )
        self._say_left()

    def _statement(self, text: str) -> None:
        from treering.shown import chart
        from treering.sql.engine.current import current

        with current().together():
            statement = self._vault.statement(text)
            plan = self._vault.plan(statement, within=self._within)
            if not statement.text.explain:
                self._say_price(plan.most, plan.unit)
            table = self._vault.sql(statement, within=self._within, plan=plan)
        self._last = table
        show_table(self._out, table)
        show_notes(self._out, table)
        for bar in chart(table):
            self._out.line(bar)
        self._say_left()

    def _say_price(self, price: float, name: str) -> None:
        self._out.line("Price: nothing." if price == 0 else f"Price: {unit(name, price)} at most.", "dim")

    def _say_left(self) -> None:
        total, left = self._vault.total, self._vault.total - self._vault.spent
        self._out.line(f"{unit(self._vault.unit, max(0.0, left))} of {amount(total)} left.", "dim")

    # -- commands -----------------------------------------------------------------------------------------------------

    def _command(self, name: str, rest: str) -> None:
        known = {
            "d": self._describe,
            "status": self._status,
            "plan": self._plan,
            "within": self._wish,
            "export": self._export,
            "help": self._help,
        }
        if name not in known:
            raise QueryError(f"there is no \\{name}; \\help lists what there is")
        known[name](rest.strip())

    def _describe(self, rest: str) -> None:
        schema = self._vault.schema
        rows = [[name, attribute.describe(), f"{attribute.size:,}"] for name, attribute in schema.attributes.items()]
        self._out.table(["attribute", "values", "cells"], rows, right=[2])

    def _status(self, rest: str) -> None:
        status = self._vault.status()
        self._out.line(
            f"{counted(self._vault.size, 'row')}; {', '.join(each['name'] for each in status['mechanisms'])}."
        )
        total, spent = self._vault.total, self._vault.spent
        self._out.bar(spent / total if total else 0.0, f"{unit(self._vault.unit, spent)} of {amount(total)} spent")

    def _plan(self, rest: str) -> None:
        if not rest:
            raise QueryError("\\plan takes a question: \\plan origin = 'JFK'")
        if _STATEMENT.match(rest):
            plan = self._vault.sql(f"EXPLAIN {rest}", within=self._within).to_pylist()[0]
            self._out.line(f"{plan['released']}, by {plan['mechanism']}.")
            self._say_price(plan["price"], plan["unit"])
            return

        price = self._vault.price_many([rest], within=self._within)
        self._out.line(f"One count, by {price.mechanism}.")
        self._say_price(price.most, price.unit)

    def _wish(self, rest: str) -> None:
        self._within = margin(rest) if rest else None
        self._out.line("No margin is wanted." if self._within is None else f"± {rest} is wanted from now on.", "dim")

    def _export(self, rest: str) -> None:
        if self._last is None:
            raise QueryError("there is no table yet to export: SELECT one first")
        path = Path(rest).expanduser()
        write_table(self._last, path)
        self._out.line(f"{counted(self._last.num_rows, 'row')} written to {path}.", "dim")

    def _help(self, rest: str) -> None:
        self._out.line(HELP)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a released table to a file, by its ending: .csv or .parquet."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    elif path.suffix == ".csv":
        from pyarrow import csv

        from treering.shown import harmless

        csv.write_csv(harmless(table), path)
    else:
        raise ParameterError("FILE", "must end with .csv or .parquet")


# -- a terminal --------------------------------------------------------------------------------------------------------


def lines_typed(schema: Schema) -> Iterator[str]:
    """The lines typed at a terminal; the end of input, or Ctrl-C on an empty line, ends them."""
    read = reader(schema)
    while True:
        try:
            yield read("treering> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def reader(schema: Schema) -> Callable[[str], str]:
    """The function that prompts for a line: prompt_toolkit's, with completion and a history, or without it Python's."""
    if find_spec("prompt_toolkit") is None:
        return input
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    path = _history()
    history: History = InMemoryHistory() if path is None else FileHistory(str(path))
    session: PromptSession[str] = PromptSession(history=history, completer=completer(schema))
    return session.prompt


def _history() -> Path | None:
    """Where the history is kept: in the user's state folder; None if that cannot be."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "treering"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return state / "history"


def completer(schema: Schema) -> Completer:
    """Completes commands, words of SQL, attributes and their categories."""
    from prompt_toolkit.completion import WordCompleter

    return WordCompleter(words(schema), ignore_case=True, pattern=re.compile(r"[\\\w'\"]+$|\S+$"))


def words(schema: Schema) -> list[str]:
    """What can be completed."""
    from treering.domain.attribute import Categories
    from treering.domain.text import identifier, literal

    values: dict[str, Any] = {}
    for attribute in schema.attributes.values():
        if isinstance(attribute, Categories):
            values.update(dict.fromkeys(literal(value) for value in attribute.values))
    return [*_COMMANDS, *_WORDS, *_WORDS_AFTER, *map(identifier, schema.names), *values]
