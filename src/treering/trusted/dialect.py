"""How SQL is spelled in an engine, where engines differ: a table of spellings for each.

An expression of the lens (``rows/lens.py``) is about typed columns: `EMBEDDED` is DuckDB's SQL over the typed rows that
a store keeps. Rows that stay in an engine are seen through a subquery that types them (``engines/columns.py``).

What is written into a statement is ours: numbers, names of columns in quotes, and texts as the hexadecimal digits of
their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Cut: TypeAlias = int | float

MOST_CUTS: Final = 16
"""The most cuts that are written into a statement: the time of a CASE grows with them, that of a look-up does not."""


@dataclass(frozen=True)
class Dialect:
    """The spellings of one engine."""

    quote: str = '"'
    """The sign around names."""
    double: str = "DOUBLE"
    """The type of doubles."""
    division: str = "({}) // {}"
    """The whole part of a quotient, of which nothing is negative."""
    moment: str = "epoch_us({})"
    """The microseconds since 1970 of a typed column of moments."""
    month: str = "month(DATE '0001-01-01' + CAST({} AS INTEGER))"
    """The month of a number of days since the first day of the year 1."""
    text: str = ""
    """The bytes of a text, given by their hexadecimal digits. Empty: listed values are parameters, and no literals."""
    place: Callable[[str, Sequence[str]], str] | None = None
    """How many of many increasing literals are at most a value. None: rows are grouped by the value."""
    item: str = ""
    """One of several literals, by its number from 0 on, where there is a `place`."""

    def quoted(self, name: str) -> str:
        """A name."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"

    def divided(self, value: str, number: int) -> str:
        """The whole part of a quotient, of which nothing is negative."""
        return self.division.format(value, number)

    def looked_up(self, value: str, cuts: Sequence[str], results: Sequence[str]) -> str:
        """The result for the number of cuts, which increase, that are at most a value."""
        if self.place is None or len(cuts) <= MOST_CUTS:
            return bisected(value, cuts, results)
        return self.item.format(", ".join(results), self.place(value, cuts))

    def literal(self, value: str | bool | int | float) -> str:
        """A value as a literal, exactly. (The shortest digits that give a double back are read as it.)"""
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, str):
            return self.text.format(value.encode().hex())
        if isinstance(value, float):
            return f"CAST('{value!r}' AS {self.double})"
        return str(value) if value > -(2**63) else f"CAST('{value}' AS BIGINT)"


EMBEDDED: Final = Dialect()
"""DuckDB over the typed rows of a store."""


def bisected(value: str, cuts: Sequence[str], results: Sequence[str]) -> str:
    """The result for the number of cuts, which increase, that are at most a value; a CASE that bisects."""
    if not cuts:
        return results[0]
    middle = len(cuts) // 2
    below = bisected(value, cuts[:middle], results[: middle + 1])
    above = bisected(value, cuts[middle + 1 :], results[middle + 1 :])
    return f"CASE WHEN {value} < {cuts[middle]} THEN {below} ELSE {above} END"
