"""Discoveries: the values of a column that no list has, told if enough rows have them.

*Formal guarantee.* For the rows (a, b] and a column, every value that is present in them and not listed gets discrete
Gaussian noise X of scale σ on its count, and is told, in the order of values, with the noisy count, if that is at least
T: the least integer with P(X ≥ T − 1) ≤ δ′ (``budget/threshold.py``). For databases that differ in one row, replaced,
this is δ′-approximate (1/σ²)-zCDP if the row is among (a, b], and nothing otherwise. *Proof.* The replaced row moves
two counts by one each. A value that both databases have costs what its noisy count costs, 1/(2σ²), since what is told
is a function of that. At most one value is in one of the databases alone, on either side, and there its count is 1: it
is told with probability P(1 + X ≥ T) ≤ δ′. Given that it is not told, the transcript is one without it. (So the
condition is on the noise alone. A least count in its place, or before it, tells whether a row is there: with a
threshold that only counts of 10 reach, the failure is 24 times δ′.)

*What is enforced here*, on public values alone: rows pay 1/σ² in the ledger, and δ′ in the ledger of failures, before
they are read; T is computed here.

*Time and memory* depend on how many different values the rows have (docs/privacy.md).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.rows import Charge
from treering.budget.threshold import threshold
from treering.errors import DamagedVault, EngineError, ParameterError
from treering.gate import Discovered, Discovery
from treering.noise import Gaussian
from treering.trusted import pricing
from treering.trusted.charges import Charges
from treering.trusted.dialect import EMBEDDED
from treering.trusted.noise import check_noise, draw
from treering.trusted.operations.base import Desk, Operation
from treering.trusted.rows.kept import Rows
from treering.trusted.rows.tally import Codes, Statement
from treering.trusted.rows.typed import TYPES, field_of

KINDS: Final = {"text": str, "code": int}
"""The kinds of columns whose values can be discovered, and what their values are."""


class Discovering(Operation[Discovery, Discovered]):
    """Unlisted values that enough rows have. Cost for the rows looked at: 1/σ² zCDP, and δ′ of what is set aside."""

    __slots__ = ()
    event = Discovered

    def check(self, desk: Desk, *request: Any) -> Discovery:
        """Refuse columns that are not kept as texts or listed integers, rows that are not told apart, noise and chances
        that cannot be; and where not enough of delta is set aside."""
        (asked,) = request
        if type(asked) is not Discovery:
            raise ParameterError("request", f"must be a Discovery, and no subclass, not a {type(asked).__name__}")
        desk.check_unreserved()
        _check_column(asked, desk)
        _check_rows(asked, desk.size)
        check_noise(Gaussian(asked.scale), 1)
        threshold(asked.scale, asked.failure)  # Refuses what it cannot be computed for.
        _check_failure(asked, desk.charges)
        return asked

    def price(self, checked: Discovery, desk: Desk) -> Cost:
        """A replaced row moves two counts."""
        return discovering(checked)

    def charge(self, checked: Discovery, cost: Cost, desk: Desk) -> None:
        """Charge the rows that are looked at."""
        _charge(checked, cost, desk.charges)

    def perform(self, checked: Discovery, cost: Cost, desk: Desk) -> Discovered:
        """The values that are told."""
        return Discovered(desk.size, cost, checked, _found(checked, desk))

    def follow(self, event: Discovered, charges: Charges) -> None:
        """Charge the rows that were looked at."""
        if charges.failures is None:
            raise DamagedVault("values were discovered where nothing of delta is set aside: restore a backup")
        _charge(event.request, event.cost, charges)


def discovering(request: Discovery) -> Cost:
    """What a discovery costs the rows that it looks at, beside its chance of failure."""
    return pricing.combining(2, 1, Gaussian(request.scale))


def _check_column(asked: Discovery, desk: Desk) -> None:
    if asked.scalar not in desk.rows.scalars or asked.scalar.kind not in KINDS:
        raise ParameterError("column", "must be one of texts or of listed integers that is kept")
    kind = KINDS[asked.scalar.kind]
    if type(asked.listed) is not tuple or not all(type(each) is kind for each in asked.listed):
        raise ParameterError("listed", "must be the values that are listed, of the column's kind")
    if desk.rows.ahead is not None or any(isinstance(each.content, Codes) for each in desk.rows.pieces(0, desk.size)):
        raise ParameterError("column", "has its values elsewhere: discovery is for rows that a vault keeps itself")


def _check_rows(asked: Discovery, size: int) -> None:
    """Refuse an interval that holds no row. (It may begin and end anywhere: every row keeps its position.)"""
    rows = asked.rows
    if type(rows) is not tuple or len(rows) != 2 or any(type(each) is not int for each in rows):
        raise ParameterError("rows", "must be a pair of sizes: the rows after the first of them, up to the second")
    if not 0 <= rows[0] < rows[1] <= size:
        raise ParameterError("rows", f"must hold at least one row, and lie within the {size:,} that there are")


def _check_failure(asked: Discovery, charges: Charges) -> None:
    if charges.failures is None:
        raise ParameterError(
            "delta",
            "has no part that is set aside for discoveries: Vault.create(..., delta=1e-9, discoveries=True) sets a "
            "tenth of it aside, for the first mechanism",
        )
    if asked.failure > (left := charges.failures.least_left(*asked.rows)):
        raise ParameterError(
            "failure",
            f"must be at most {float(left):.3g}, what these rows have left of the part of delta that is set aside; "
            "rows that are new have all of it",
        )


def _charge(request: Discovery, cost: Cost, charges: Charges) -> None:
    start, end = request.rows
    charges.charge_rows(cost, start, end)
    if charges.failures is not None:
        charges.failures.charge_rows([Charge(start, end, request.failure)])


# -- what is private ---------------------------------------------------------------------------------------------------


def _found(asked: Discovery, desk: Desk) -> tuple[tuple[Any, int], ...]:
    values, counts = _counted(asked, desk.rows)
    noisy = counts + draw(Gaussian(asked.scale), 1, len(counts))
    return told(values, noisy, threshold(asked.scale, asked.failure))


def told(values: pa.Array, noisy: Ints, least: int) -> tuple[tuple[Any, int], ...]:
    """PRIVATE: the values whose noisy counts are at least the threshold, in their order: what is left is public."""
    places = np.flatnonzero(noisy >= least)
    return tuple(zip(values.take(pa.array(places)).to_pylist(), noisy[places].tolist(), strict=True))


def _counted(asked: Discovery, rows: Rows) -> tuple[pa.Array, Ints]:
    """PRIVATE: the values that are present and not listed, increasing, and how many rows have them."""
    start, end = asked.rows
    statement, name = Statement(), field_of(asked.scalar)
    source, column = statement.rows(rows.pieces(start, end), (start, end), [name]), EMBEDDED.quoted(name)
    counted = f"SELECT {column} AS value, count(*) AS rows FROM ({source}) AS r GROUP BY {column}"
    lines = statement.run(rows.engine(), counted)
    seen = int(np.asarray(lines.column("rows")).sum())
    there = rows.between(start, end)
    if seen != there:
        raise EngineError(f"there are {seen:,} rows where {there:,} were taken in: nothing was answered")
    values = lines.column("value").cast(TYPES[asked.scalar.kind])
    listed = pc.is_in(values, value_set=pa.array(asked.listed, values.type))
    lines = lines.filter(pc.invert(pc.or_(listed, values.is_null()))).sort_by("value")
    return lines.column("value").combine_chunks(), np.asarray(lines.column("rows"), dtype=np.int64)
