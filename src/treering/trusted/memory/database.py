"""A growing table in this process: it takes in rows, opens gates, and tells its watchers that it has grown."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.budget.promise import Budget
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, SchemaError
from treering.trusted import registry
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.memory.watchers import Watchers
from treering.trusted.rows.intake import DroppedRows, Intake, OnInvalid, dropping, typed_blocks
from treering.trusted.rows.kept import Rows
from treering.trusted.sealed import Sealed
from treering.words import counted, left_out

if TYPE_CHECKING:
    from treering.trusted.engines.source import Source
    from treering.trusted.engines.watermark import Increment, Watermark


class GrowingDatabase(Sealed):
    """A growing table, kept in memory: the columns that its schema names, typed.

    Public: the schema, the size, and how many rows were ever dropped. Everything else leaves only through a mechanism,
    with noise. Neighbouring databases differ in one row, replaced, which keeps its arrival time.

    >>> from treering.domain.attribute import categories, integers
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "month": integers(1, 12)})
    >>> db = GrowingDatabase(schema)
    >>> db.append([{"origin": "JFK", "month": 1}, {"origin": "EWR", "month": 2}])
    2
    >>> db
    GrowingDatabase(2 rows; 24 cells)
    """

    __slots__ = ("_dropped", "_refreshing", "_rows", "_source", "_watchers", "_watermark")

    def __init__(self, schema: Schema) -> None:
        if not isinstance(schema, Schema):
            raise SchemaError(f"a GrowingDatabase needs a Schema, not {type(schema).__name__}")
        self._rows = Rows(schema)
        self._dropped = 0
        self._watchers = Watchers()
        self._source: Source | None = None
        self._watermark: Watermark | None = None
        self._refreshing = threading.Lock()

    @classmethod
    def from_table(
        cls, table: Any, schema: Schema, order: str = "id", on_invalid: OnInvalid = "refuse"
    ) -> GrowingDatabase:
        """A database whose rows stay in their engine: an Ibis table in DuckDB, PostgreSQL or Spark, or an address.

        The rows that the table holds are taken in at once, and stay there; `refresh` takes in later ones. What is asked
        is counted by a statement there.

        ``table``       an Ibis table, or the address of one (see docs/scale.md, also for what is refused)
        ``schema``      the attributes, which are columns of the table
        ``order``       the name of a public column of unique integers, larger in every new row than in all before
        ``on_invalid``  as in `append`
        """
        database = cls(schema)
        database._source = registry.part("Source").of(table, schema, order)
        database._rows.ahead = registry.part("Ahead")(database._rows)
        database.refresh(on_invalid)
        return database

    @property
    def schema(self) -> Schema:
        """The universe: public."""
        return self._rows.schema

    @property
    def size(self) -> int:
        """The number of rows: public."""
        return self._rows.size

    @property
    def dropped(self) -> int:
        """How many rows ``on_invalid="drop"`` has left out so far: public."""
        return self._dropped

    def append(self, frame: Any, on_invalid: OnInvalid = "refuse") -> int:
        """Take in the rows of ``frame`` (Arrow, pandas, polars or a list of dicts) and return the new size.

        A row that does not fit the schema refuses the whole batch with a `DataError` that names position and column,
        never the value. ``on_invalid="drop"`` instead leaves such rows out, warns with `DroppedRows` and counts them in
        `dropped`: that number is then public, so whether a row fits the schema is not protected.
        """
        self._check_embedded()
        intake, drop = Intake(), dropping(on_invalid)
        blocks = list(typed_blocks(frame, self.schema, None, drop=drop, intake=intake))
        self._warn(intake.rows, intake.dropped)
        table = blocks[0] if len(blocks) == 1 else pa.concat_tables(blocks).combine_chunks()
        self._rows.add(table, then=partial(self._drop, intake.dropped))
        return self._grown()

    def append_cells(self, cells: npt.ArrayLike) -> int:
        """Take in rows given as cell numbers of the schema, one for each row, and return the new size.

        Each row has its cell's value; of `numbers`, the middle of the cell.
        """
        self._check_embedded()
        given = np.asarray(cells)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
            raise DataError("cell numbers come as a one-dimensional array of integers")
        self._rows.add_cells(given.astype(np.int64))
        return self._grown()

    def refresh(self, on_invalid: OnInvalid = "refuse") -> int:
        """Take in the rows that its table has past the watermark (docs/scale.md), and return the new size.

        All of them or none: an engine that fails, a table that did not only grow at its end (`EngineError`) and rows
        that do not fit (`DataError`, which names columns and numbers of rows, never values) leave the database as it
        was, and a retry starts from the same watermark. ``on_invalid`` is as in `append`.
        """
        if self._source is None:
            raise EngineError("only a database made by from_table() has a table to refresh from; append() takes rows")
        with self._refreshing:
            increment = self._source.increment(self._watermark, on_invalid)
            self._warn(increment.rows, increment.dropped)
            stretch = self._source.stretch(self._watermark, increment.watermark)
            self._rows.add_elsewhere(stretch, increment.rows, then=partial(self._mark, increment))
        return self._grown()

    def open_gate(self, budget: Budget) -> Kernel:
        """A gate with a ``budget`` of its own to this database as it grows. The budgets of several gates add up."""
        return Kernel(self._rows, budget, MemoryJournal())

    def watch(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` after every append, for as long as its object lives."""
        self._watchers.add(grown)

    def _check_embedded(self) -> None:
        if self._source is not None:
            raise EngineError("the rows of this database stay in their table: add them there, and call refresh()")

    def _mark(self, increment: Increment) -> None:
        self._watermark = increment.watermark
        self._drop(increment.dropped)

    def _drop(self, dropped: int) -> None:
        self._dropped += dropped

    def _warn(self, taken: int, dropped: int) -> None:
        """Say that rows will be left out, before any is taken in: where warnings are errors, nothing has happened."""
        if dropped:
            warnings.warn(left_out(dropped, of=dropped + taken), DroppedRows, stacklevel=3)

    def _grown(self) -> int:
        """Rows were taken in: tell who watches, and return the new size."""
        self._watchers.call()
        return self.size

    def __repr__(self) -> str:
        return f"GrowingDatabase({counted(self.size, 'row')}; {counted(self.schema.cells, 'cell')})"
