"""Publishing: named statements become tables of a real database, for tools that do not know of privacy.

What leaves is what `Vault.sql` gives: released numbers, and what follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treering.answer import Bill, Price
from treering.errors import ParameterError, QueryError
from treering.vault.asking import Questions

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.sql.split import Statement


@dataclass(frozen=True, slots=True)
class Published:
    """What was published, or would be: public."""

    price: Price
    """What it could cost, all statements together: known before anything is asked."""
    cost: float = 0.0
    """What it has cost."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """The tables that are there now, without that of the notes; none if this was a dry run."""


def publish(
    questions: Questions,
    address: str,
    statements: Mapping[str, str],
    promise: str,
    within: float | None,
    mechanism: str | None,
    bill: Bill,
    *,
    dry_run: bool,
) -> Published:
    """See `Vault.publish`."""
    from treering.sql.engine.current import current
    from treering.sql.publishing import tables
    from treering.sql.publishing.places import place_of

    if not isinstance(statements, Mapping):
        raise ParameterError("statements", "must be a mapping of names of tables to statements")
    tables.check_names(list(statements))
    place = place_of(address)
    with current().together():
        read = {name: _read(questions, name, text, mechanism) for name, text in statements.items()}
        items = tuple(dict.fromkeys(item for each in read.values() for item in each.items))
        plan = questions.plan(items, mechanism, within)
        place.check(list(read))
        if dry_run:
            return Published(plan.price)
        released = questions.released_together(list(read.values()), within, mechanism, bill, plan)
        with bill.charging():
            found = {name: each.table(read[name]) for name, each in zip(read, released, strict=True)}
            notes = tables.noted(found, statements, promise, released[0].size)
            shown = {name: tables.published(table) for name, table in found.items()}
            place.write({**shown, tables.NOTES: notes})
    return Published(plan.price, bill.cost, shown)


def _read(questions: Questions, name: str, text: str, mechanism: str | None) -> Statement:
    """A statement that can be published."""
    from treering.sql.answer import column_names
    from treering.sql.publishing.tables import check_columns

    statement = questions.statement(text, mechanism)
    if statement.text.explain or statement.text.public is not None:
        raise QueryError(f"the table {name} is to be made of a SELECT about the rows, without EXPLAIN")
    check_columns(name, column_names(statement))
    return statement
