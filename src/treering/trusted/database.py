"""Growing databases in this process: a table (`GrowingDatabase`), and points to learn from (`GrowingPoints`).

Both implement `treering.gate.Database`: they take in rows, open gates, and tell their watchers that they have grown.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from treering.budget.promise import Budget
from treering.domain.loss import Labels
from treering.domain.schema import Schema
from treering.errors import DataError, EngineError, ParameterError, SchemaError
from treering.trusted.engines.tables import Stretch
from treering.trusted.journal import MemoryJournal
from treering.trusted.kernel import Kernel
from treering.trusted.learning.points import POINTS, Points, Rows
from treering.trusted.rows.intake import Intake, typed_blocks
from treering.trusted.rows.kept import Rows as Kept
from treering.trusted.sealed import Sealed
from treering.words import counted, left_out

if TYPE_CHECKING:
    from treering.trusted.engines.source import Source
    from treering.trusted.engines.watermark import Increment, Watermark

OnInvalid: TypeAlias = Literal["refuse", "drop"]


class DroppedRows(UserWarning):
    """Rows that did not fit the schema were left out, as ``on_invalid="drop"`` asks. Their number is public."""


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
        self._rows = Kept(schema)
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
        from treering.trusted.engines.source import Source

        database = cls(schema)
        database._source = Source.of(table, schema, order)
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
        if on_invalid not in ("refuse", "drop"):
            raise ParameterError("on_invalid", 'must be "refuse" or "drop"')
        intake = Intake()
        blocks = list(typed_blocks(frame, self.schema, None, drop=on_invalid == "drop", intake=intake))
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
            source = self._source
            increment = source.increment(self._watermark, on_invalid)
            self._warn(increment.rows, increment.dropped)
            stretch = Stretch(lambda: source, self._watermark, increment.watermark)
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


# -- points to learn from ----------------------------------------------------------------------------------------------


class GrowingPoints(Sealed):
    """A growing set of points with features in the unit L2 ball, and labels.

    Public: their number, their ``dimension`` (how many features each has) and the kind of ``labels``: "signs" (−1 or
    1), "numbers" (in [−1, 1]) or "none". Neighbouring databases differ in one point, features and label replaced,
    which keeps its arrival time.

    >>> points = GrowingPoints(2, "signs")
    >>> points.append([[0.5, 0.5], [0.0, -1.0]], [1, -1])
    2
    >>> points
    GrowingPoints(2 points; 2 features)
    """

    __slots__ = ("_points", "_watchers")

    def __init__(self, dimension: int, labels: Labels) -> None:
        self._points = Points(dimension, labels)
        self._watchers = Watchers()

    @property
    def schema(self) -> Schema:
        """A schema of one cell: points have no finite universe."""
        return POINTS

    @property
    def size(self) -> int:
        """The number of points: public."""
        return self._points.size

    @property
    def dimension(self) -> int:
        """How many features a point has: public."""
        return self._points.dimension

    @property
    def label_kind(self) -> Labels:
        """The kind of labels: "signs", "numbers" or "none"; public."""
        return self._points.label_kind

    def append(self, features: Any, labels: Any = None) -> int:
        """Take in points, all or none, and return the new size.

        ``features`` has a row for each point; a row of L2 norm above 1 is scaled down to norm 1. ``labels`` has one for
        each row, or is None for labels of kind "none".
        """
        self._points.add_points(features, labels)
        self._watchers.call()
        return self.size

    def append_rows(self, rows: Rows) -> int:
        """Take in `Rows`, which were checked and scaled by their declared bounds, and return the new size."""
        self._points.add_rows(rows)
        self._watchers.call()
        return self.size

    def open_gate(self, budget: Budget) -> Kernel:
        """A gate with a ``budget`` of its own to these points as they grow. The budgets of several gates add up."""
        return Kernel(self._points, budget, MemoryJournal())

    def watch(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` after every append, for as long as its object lives."""
        self._watchers.add(grown)

    def __repr__(self) -> str:
        return f"GrowingPoints({counted(self.size, 'point')}; {counted(self.dimension, 'feature')})"


# -- who is told that a database has grown -----------------------------------------------------------------------------


class Watchers:
    """Methods to call after every append, held by weak references: watching keeps no object alive."""

    def __init__(self) -> None:
        self._methods: list[WeakMethod[Callable[[], None]]] = []

    def add(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` from now on."""
        if not inspect.ismethod(grown):
            raise ParameterError("grown", "must be a method of an object, which is called while the object lives")
        self._methods.append(WeakMethod(grown))

    def call(self) -> None:
        """Call every method whose object is alive: the database has grown."""
        self._methods = [method for method in self._methods if method() is not None]
        for method in tuple(self._methods):
            grown = method()
            if grown is not None:
                grown()
