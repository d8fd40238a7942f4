"""A table in an engine that has grown since its first rows were taken in, and what it knows about itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

import treering as tr
from treering.trusted.engines.source import Source
from treering.trusted.engines.tables import Stretch
from treering.trusted.engines.watermark import Increment, Watermark
from treering.trusted.rows.intake import OnInvalid
from treering.trusted.rows.tally import Grouping, Lines

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 12)})


class Content(NamedTuple):
    """What a database should have: how many rows, how many that did not fit, and the count of each cell."""

    size: int
    dropped: int
    counts: list[list[int]]


def content(rows: int) -> Content:
    """What a database should have after so many rows of the table, of which every tenth does not fit."""
    number = np.arange(rows)
    fits = number[number % 10 != 9]
    counts = np.zeros(SCHEMA.shape, dtype=np.int64)
    np.add.at(counts, ((fits % 4 == 0).astype(np.int64), fits % 12), 1)
    return Content(len(fits), rows - len(fits), counts.tolist())


class Known:
    """A source that asks its engine everything once: it knows what lies past each watermark, and what was counted."""

    def __init__(self) -> None:
        self._known: dict[Watermark | None, Increment] = {}
        self._counted: dict[Any, Lines] = {}
        self._source: Source | None = None

    def learn(self, source: Source, after: Watermark | None) -> Watermark:
        """What lies past this watermark now."""
        self._source = source
        self._known[after] = source.increment(after, "drop")
        return self._known[after].watermark

    def increment(self, after: Watermark | None, on_invalid: OnInvalid) -> Increment:
        """What was learnt."""
        assert on_invalid == "drop"
        return self._known[after]

    def stretch(self, after: Watermark | None, mark: Watermark) -> Stretch:
        """The rows between two watermarks."""
        itself: Any = self
        return Stretch(lambda: itself, after, mark)

    def count(self, grouping: Grouping, bounds: Sequence[int | None], *, fitting: bool) -> Lines:
        """What was counted before, or is now."""
        assert self._source is not None
        key = (tuple(grouping.axes), tuple(bounds), fitting)
        if key not in self._counted:
            self._counted[key] = self._source.count(grouping, bounds, fitting=fitting)
        return self._counted[key]


class GrowingTable:
    """A table in a DuckDB file with so many rows at first; `grow` adds the others."""

    def __init__(self, path: Path, first: int, last: int) -> None:
        self._path, self._rows = path, (first, last)
        self.before, self.after = content(first), content(last)
        self.address = f"duckdb://{path}#rows"
        self.execute(f"create table rows as {_rows(0, first)}")
        self.source = Source.of(self.address, SCHEMA)
        self.known: Any = Known()
        """Quicker than the source, and the same to whoever refreshes; from the time when all rows are there."""
        self._first = self.known.learn(self.source, None)

    def grow(self) -> None:
        """Add the other rows."""
        self.execute(f"insert into rows {_rows(*self._rows)}")
        self.known.learn(self.source, self.known.learn(self.source, self._first))

    def execute(self, statement: str) -> None:
        """Over a connection of its own, to write: refused while another connection of this process only reads."""
        with duckdb.connect(str(self._path)) as connection:
            connection.execute(statement)


def _rows(start: int, stop: int) -> str:
    return (
        "select i as id, case when i % 4 = 0 then 'yes' else 'no' end as late, "
        f"case when i % 10 = 9 then 13 else (i % 12 + 1)::int end as month from range({start}, {stop}) r(i)"
    )
