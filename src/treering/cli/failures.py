"""Every way a command can fail: one line on stderr and an exit code, never a traceback.

2  bad input: a flag, a value, a path, a schema, a question, rows that do not fit
3  the privacy budget does not cover it
1  anything else
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final, NoReturn

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

BAD_INPUT: Final = 2
BUDGET: Final = 3
OTHER: Final = 1
INTERRUPTED: Final = 130

DEBUG: Final = "TREERING_TRACEBACK"
"""The environment variable that shows the traceback of an error nobody expected."""

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
    """What is wrong, in plain words; in one line, unless a person at a terminal is shown the place as well.

    The text of an error nobody expected is not shown: it may quote a private value.
    """
    if isinstance(error, typer.BadParameter) and error.param is None:
        return _one_line(error.message)  # Raised by a command, not about one flag: it says all there is to say.
    if isinstance(error, typer.TyperException):
        return _one_line(error.format_message())
    if isinstance(error, TreeringError):
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        return text if sys.stderr.isatty() else _one_line(text)
    if isinstance(error, OSError):
        named = f": {error.filename}" if error.filename is not None else ""
        return f"{error.strerror or type(error).__name__}{named}"
    return f"an unexpected {type(error).__name__}; set {DEBUG}=1 to see where"


def fail(error: Exception) -> NoReturn:
    """Say what went wrong, and leave."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    typer.echo(f"treering: {message_of(error)}", err=True)
    sys.exit(code_of(error))


def _one_line(text: str) -> str:
    """Without the lines that point into a query: they are indented."""
    kept = [line.strip() for line in text.splitlines() if not line.startswith("  ")]
    return " ".join(line for line in kept if line)
