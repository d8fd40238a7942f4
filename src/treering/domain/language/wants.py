"""What questions count: rows, persons, or rows of which at most so many of each person count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from treering.domain.language.items import Item
from treering.domain.query import Query
from treering.errors import ParameterError

Count: TypeAlias = Literal["rows", "persons"]


@dataclass(frozen=True, slots=True)
class Wants:
    """What a question counts.

    - ``count``: "rows" or "persons"
    - ``per_person``: the most rows of each person that count, the first ones, in all questions that are asked together;
      of persons, the most questions in which each counts
    """

    count: Count = "rows"
    per_person: int | None = None

    def __post_init__(self) -> None:
        if self.count not in ("rows", "persons"):
            raise ParameterError("count", f"must be 'rows' or 'persons', not {self.count!r}")
        cap = self.per_person
        if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int)):
            raise ParameterError("per_person", f"must be a whole number, not {type(cap).__name__}")

    def of(self, person: str | None, limit: int) -> Wants:
        """The same where rows belong to the persons in a column, each with at most ``limit`` rows: a cap that caps
        nothing is none, and where each person has one row, persons are rows."""
        if self == ROWS:
            return self
        if person is None:
            raise ParameterError(
                "count" if self.per_person is None else "per_person",
                "is about persons, and this vault does not know whose its rows are: name the column when a vault is "
                "made, Vault.create(..., person='patient', rows_per_person=30)",
            )
        cap = self.per_person
        if cap is not None and not 1 <= cap <= limit:
            raise ParameterError(
                "per_person", f"must be from 1 to {limit:,}, the most rows that a person can have here, not {cap:,}"
            )
        if cap == limit:
            cap = None
        return Wants("rows" if limit == 1 else self.count, cap)

    def items(self, queries: Sequence[Query]) -> list[Item]:
        """The items of questions."""
        kind: Final = "count" if self.count == "rows" else "persons"
        return [Item(kind, query, cap=self.per_person or 0) for query in queries]


ROWS: Final = Wants()
"""All rows."""
