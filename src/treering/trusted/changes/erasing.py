"""PRIVATE: rows found by key or person, and erased or corrected, for good.

*Formal guarantee.* Erasing or correcting rows releases nothing and costs nobody anything. Neighbours agree in which
positions are erased or corrected, and when: that is public. What a row says over time, first this, then that, then
nothing, is its *history*, and neighbours differ in the history of one row. Every operation reads the rows as they are
at the time. A release with weight w on a row's leaf moves by what it moved by before, whatever the row says now: |w| in
each of two numbers at most, and by nothing once the row is gone, in either world. So what a release costs a row is what
``operations/`` derives, the sums are those that the ledger by row keeps, and the theorem of ``budget/promise.py`` holds
for histories as it does for values. (A series then holds a part of what a row said before: see
``mechanisms/series/changes.py``. That is about accuracy.)

Not protected is the choice of rows: one that depends on what they say tells that, as the time of an append does.

*What is left.* The rows' slots, which are empty; the digest of an erased row's person; the lines that say which rows
these were. Until they are overwritten, a file system may keep the blocks of a file that was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Ints
from treering.domain.sums import Capped
from treering.errors import DataError, ParameterError, VaultError
from treering.gate import Condensed, Event, ReservationEnded, Reserved, SegmentBegun
from treering.trusted.changes.rewriting import Changes
from treering.trusted.journal import live_runs
from treering.trusted.kernel import Kernel
from treering.trusted.ledger.ledger import Ledger
from treering.trusted.ledger.record import Record
from treering.trusted.rows.intake import KEY, PERSON, Intake, typed_blocks
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.parts import Parts, StoreEngine
from treering.trusted.rows.persons import Persons
from treering.trusted.sealed import Sealed
from treering.words import counted

__all__ = ["Changes", "Erasing"]


class Erasing(Sealed):
    """Finds the rows of a store, and erases or corrects them. Callers hold the store's lock."""

    __slots__ = ("_engine", "_ledger", "_parts", "_record", "_rows")

    def __init__(
        self,
        parts: Parts,
        ledger: Ledger,
        rows: Rows,
        record: Record,
        engine: StoreEngine,
        gates: Mapping[str, Kernel],
    ) -> None:
        """Refused while a run or a reservation is in progress."""
        self._parts, self._ledger, self._rows, self._record = parts, ledger, rows, record
        self._engine = engine
        for name, gate in gates.items():
            if _busy(gate.history):
                raise VaultError(f"{name!r} has a run or a reservation in progress: rows are erased when it is over")
            if _counts_persons(gate.history):
                raise VaultError(
                    f"{name!r} has counted persons: a flag of a person may not fall with a single row, so no row of "
                    "this vault can be erased or corrected any more"
                )

    # -- finding ------------------------------------------------------------------------------------------------------

    def keyed(self, keys: Iterable[Any]) -> Changes:
        """The erasure of the rows with these keys. `DataError` counts the keys that no row has."""
        named = self._digests(self._keys, keys, "keys")
        return self._erasure(named, self._places(KEY, named), "key")

    def of_persons(self, persons: Iterable[Any]) -> Changes:
        """The erasure of all rows of these persons. `DataError` counts the persons that have none."""
        limit = self._parts.persons()
        if limit is None:
            raise ParameterError("persons", "are not known here: the vault was made without person=")
        named = self._digests(limit, persons, "persons")
        return self._erasure(named, self._places(PERSON, named), "person")

    def corrected(self, frame: Any) -> Changes:
        """The correction of rows to what a frame, or a file, says of them: it has their keys, and all columns."""
        tables = list(typed_blocks(frame, self._rows.schema, None, drop=False, intake=Intake(), keys=self._keys))
        rows = pa.concat_tables(tables).combine_chunks()
        if not rows.num_rows:
            raise DataError("there is no row to correct")
        named = _whole(rows.column(KEY))
        _check_once(named, "rows")
        places, which = self._places(KEY, named)
        _check_known(named, which, "key")
        if len(places) > len(named):
            raise DataError(
                f"{counted(len(places) - len(named), 'row')} more than keys are named: several rows have one key, "
                "which tells none of them apart; nothing was changed (erase them, and append what is right)"
            )
        return Changes(places, rows.take(pa.array(which)))

    @property
    def _keys(self) -> Persons:
        if self._parts.keys is None:
            raise ParameterError("key", "was not declared when this vault was made: rows can be found by none")
        return self._parts.keys

    def _digests(self, ids: Persons, given: Iterable[Any], name: str) -> pa.Array:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise ParameterError(name, f"must be a list, not a {type(given).__name__}")
        listed = list(given)
        if not listed:
            raise ParameterError(name, "must name at least one row" if name == "keys" else "must name at least one")
        found = ids.digests(listed)
        _check_once(found, name)
        return found

    def _places(self, column: str, named: pa.Array) -> tuple[Ints, Ints]:
        """The positions of rows with one of these digests, increasing, and which one it is."""
        places, which, position = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], 1
        for table in self._parts.stored().tables([column]):
            found = pc.index_in(_whole(table.column(column)), value_set=named)
            here = np.flatnonzero(np.asarray(found.is_valid()))
            places.append(here + position)
            which.append(np.asarray(found.drop_null(), dtype=np.int64))
            position += table.num_rows
        return np.concatenate(places), np.concatenate(which)

    def _erasure(self, named: pa.Array, found: tuple[Ints, Ints], word: str) -> Changes:
        places, which = found
        there = ~np.isin(places, self._record.gone.positions)
        _check_known(named, which[there], word)
        return Changes(places[there], None)

    # -- changing -----------------------------------------------------------------------------------------------------

    def carry_out(self, changes: Changes, told: Callable[[], None]) -> None:
        """Erase or correct rows, durably: either all of it has happened, or nothing. What is recorded by ``told`` is
        durable with it."""
        self._parts.rewriting.change(changes, self._parts.tail, told, lambda: self._take_up(changes))
        self._engine.let_go()  # and with it, what it has spilled
        self._ledger.wipe()

    def _take_up(self, changes: Changes) -> None:
        self._record.changed = True
        if changes.rows is None:
            self._record.gone.add([(each, each) for each in changes.positions.tolist()])
        self._rows.erase(self._record.gone)


def _busy(history: Sequence[Event]) -> bool:
    """Whether a run or a reservation is in progress."""
    begun, ended = (sum(isinstance(each, kind) for each in history) for kind in (Reserved, ReservationEnded))
    return begun > ended or bool(live_runs(history))


def _counts_persons(history: Sequence[Event]) -> bool:
    """Whether persons were ever counted, or some rows of each: their first rows must stay what they were."""
    begun = [each for each in history if isinstance(each, SegmentBegun)]
    begun += [kept.begun for each in history if isinstance(each, Condensed) for kept in each.segments]
    return any(isinstance(each.sums, Capped) for each in begun)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else found.chunk(0)


def _check_once(named: pa.Array, name: str) -> None:
    if len(named.unique()) < len(named):
        raise ParameterError(name, "name something twice: nothing was changed")


def _check_known(named: pa.Array, which: Ints, word: str) -> None:
    unknown = len(named) - len(np.unique(which))
    if unknown:
        raise DataError(
            f"{unknown:,} of {counted(len(named), word)} named have no row here: there never was one, or it was "
            "erased; nothing was changed"
        )
