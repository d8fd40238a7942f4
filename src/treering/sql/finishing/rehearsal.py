"""A statement rehearsed before anything is released for it: what is sure to fail fails for free, and says so."""

from __future__ import annotations

from typing import Final

from treering.errors import QueryError, TreeringError
from treering.sql.finishing.finish import rehearse as worked_out
from treering.sql.split import Statement

NOTE: Final = "(Found by working it out with made-up numbers: nothing was charged.)"


def rehearse(statement: Statement) -> None:
    """Raise the `QueryError` that working out the statement's result would end with, whatever is released.

    What depends on the numbers is not seen here.
    """
    try:
        worked_out(statement)
    except TreeringError as error:
        error.add_note(NOTE)
        raise
    except Exception as error:  # A statement that the second stage does not expect: the caller's, not ours.
        refusal = QueryError("the result of this statement cannot be worked out: write it in another way")
        refusal.add_note(NOTE)
        raise refusal from error
