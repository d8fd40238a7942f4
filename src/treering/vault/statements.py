"""What was released for an SQL statement: all that its table is worked out from, now or when its key comes again.

The line of a key holds what was released and a digest of the statement, not the table: that is worked out again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.answer import Estimate
from treering.domain.language.items import Item
from treering.errors import QueryError
from treering.mechanisms.base import Answering
from treering.mechanisms.persons import Persons
from treering.mechanisms.rings import Rings
from treering.mechanisms.series.drawing import PERSONS, Drawing, Source
from treering.theory.continual import Law
from treering.trusted.store import Kept
from treering.vault.joined import together
from treering.vault.record import checked

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.sql.split import Statement

MOST_KEPT: Final = 10_000
"""The most numbers of a statement that is asked with a key: its line holds them for ever."""

_FIELDS: Final = tuple(field.name for field in fields(Estimate))


class Released(NamedTuple):
    """What was released for a statement: public."""

    estimates: Sequence[Estimate]
    """A number for each of the statement's items."""
    size: int
    """The number of rows that they are about."""
    mechanism: int = -1
    """The number of the mechanism, if it knows the law of the noise."""
    drawing: Drawing | None = None
    """The noise of the numbers; None if its law is not known."""
    beside: int = -1
    """The number of the mechanism that counts persons, where the other counts rows."""

    def table(self, statement: Statement) -> pa.Table:
        """The statement's result. (Needs no vault: it is worked out while others ask.)"""
        from treering.sql.answer import answer, draws_for

        noise = None if self.drawing is None else self.drawing.draw(self.estimates, draws_for(statement))
        return answer(statement, self.estimates, noise, self.size)


def stated(statement: Statement, mechanism: str | None) -> str:
    """A digest of an SQL statement and the mechanism: an idempotency key is for one statement."""
    return hashlib.sha256(json.dumps([mechanism, statement.text.original.sql()]).encode()).hexdigest()


def check_kept(statement: Statement) -> None:
    """Refuse a statement of more numbers than a line of the ledger holds."""
    if len(statement.items) > MOST_KEPT:
        raise QueryError(
            f"a statement with a key releases at most {MOST_KEPT:,} numbers, and this one {len(statement.items):,}: "
            "ask without a key (asked again before rows come, it is free)"
        )


def kept_released(key: str, asked: str, found: Released) -> Kept:
    """What is recorded of what was released under a key."""
    numbers = [[_plain(getattr(each, name)) for name in _FIELDS] for each in found.estimates]
    sources = None if found.drawing is None else [_source(each) for each in found.drawing.sources]
    plain = {"asked": asked, "size": found.size, "fields": _FIELDS, "numbers": numbers, "sources": sources}
    plain |= {"beside": found.beside} if found.beside >= 0 else {}
    return Kept(key, found.mechanism, plain)


class Recorded(NamedTuple):
    """What the record says was released under a key."""

    estimates: list[Estimate]
    size: int
    sources: list[Source] | None
    beside: int = -1

    def released(self, statement: Statement, mechanism: int, able: Sequence[Answering]) -> Released:
        """What was released then by one of the mechanisms, with the noise that it had then."""
        if self.sources is None:
            return Released(self.estimates, self.size)
        numbers = [mechanism, *([self.beside] if self.beside >= 0 else [])]
        drawing = _drawn(statement.items, self.sources, [able[number] for number in numbers])
        return Released(self.estimates, self.size, mechanism, drawing, self.beside)


def _drawn(items: Sequence[Item], sources: Sequence[Source], able: Sequence[Answering]) -> Drawing | None:
    """The noise that items had when the series were these: of one mechanism, or of rows and of persons."""
    if len(able) == 1:
        (only,) = able
        return only.drawing(items, sources) if isinstance(only, Rings | Persons) else None
    rows, persons = (
        _drawn(
            [item for item in items if item.personal == personal],
            [each for each in sources if (each.position == PERSONS) == personal],
            [one],
        )
        for personal, one in zip((False, True), able, strict=True)
    )
    return together(items, rows, persons)


def recorded(kept: Kept, asked: str) -> Recorded:
    """What was released under a key; refused if the key was used for something else."""
    plain = checked(kept, asked)
    estimates = [Estimate(**dict(zip(plain["fields"], map(_field, row), strict=True))) for row in plain["numbers"]]
    sources = None if plain["sources"] is None else [_read_source(*each) for each in plain["sources"]]
    return Recorded(estimates, plain["size"], sources, plain.get("beside", -1))


def _plain(value: Any) -> Any:
    """A field for JSON: a number that is not finite is a list of its text."""
    return [str(value)] if isinstance(value, float) and not math.isfinite(value) else value


def _field(plain: Any) -> Any:
    return float(plain[0]) if isinstance(plain, list) else plain


def _source(source: Source) -> list[Any]:
    law = source.law
    return [source.series, source.position, law.variance, [list(each) for each in law.parts], law.step]


def _read_source(series: int, position: int, variance: float, parts: list[list[Any]], step: float) -> Source:
    listed = tuple((weight, scale, number) for weight, scale, number in parts)
    return Source(series, position, Law(variance, listed, step))
