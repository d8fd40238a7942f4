"""draw_rows: its law and its loss by listing all databases, its refusals, and its place in the kernel."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.boxes.replay import RecordedGate
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.workload import prefixes, ranges
from treering.gate import RowsDrawn
from treering.protocols import Gate
from treering.trusted.kernel import Kernel
from treering.trusted.operations import synthesis as multisets
from treering.trusted.operations.synthesis import Synthesis, listing

Cells: TypeAlias = tuple[int, ...]

SCHEMA = tr.Schema({"v": tr.integers(0, 2), "w": tr.categories("a", "b")})
THREE = tr.Schema({"v": tr.integers(0, 2)})
HALF = Query.weighted(SCHEMA, [0.25, 0.5, 1.0], attributes=["v"], resolution=4)
B = Query.where(SCHEMA, w="b")
CLASSES: dict[str, list[Query]] = {
    "prefixes": prefixes(THREE, "v"),
    "intervals": ranges(THREE, "v"),
    "prefixes from above": [Query.where(THREE, v=2), Query.where(THREE, v=[1, 2])],
    "enumeration": [Query.where(SCHEMA, v=0), B],
    "weighted": [HALF, B],
    "only weighted": [HALF],
    "constant": [Query.all(THREE)],
}
NAMES = pytest.mark.parametrize("name", CLASSES)


def kernel(cells: Sequence[int], schema: tr.Schema, total: float = 1000) -> tuple[Kernel, TestDatabase]:
    db = TestDatabase(schema, cells)
    return db.open_gate(Budget("pure", Fraction(total))), db


def weight(query: Query, cell: int) -> Fraction:
    """What one row counts, in rows."""
    codes = np.unravel_index(cell, query.schema.shape)
    table = query.weights()
    return Fraction(int(table[tuple(int(codes[position]) for position in query.attributes)]), query.scale)


def score(class_: Sequence[Query], true: Cells, drawn: Cells) -> Fraction:
    """max |C(x) − (n/m)·C(y)|, from its definition, in rows."""
    factor = Fraction(len(true), len(drawn))
    return max(
        abs(sum(weight(query, cell) for cell in true) - factor * sum(weight(query, cell) for cell in drawn))
        for query in class_
    )


def law(class_: Sequence[Query], true: Cells, rows: int, scale: float) -> dict[Cells, Fraction]:
    """What `Synthesis.draw` does, with its probabilities: a level, then one of the candidates within it."""
    synthesis = Synthesis(class_, rows, len(true), scale)
    db = TestDatabase(class_[0].schema, true)
    family = synthesis.family(db.rows.cells.count_many(synthesis.asked).tolist())
    atoms, arcs = synthesis._candidates.atoms, synthesis._candidates.arcs
    start = 0 if arcs is None else arcs.start
    order = (*atoms.cells[start:], *atoms.cells[:start])
    powers = [synthesis.ratio**level for level in family.levels] + [Fraction(0)]
    masses: dict[Cells, Fraction] = {}
    for place, level in enumerate(family.levels):
        for rank in range(family.count(level)):
            member = family.member(rank, level)
            cells = tuple(sorted(c for c, times in zip(order, member, strict=True) for _ in range(times)))
            masses[cells] = masses.get(cells, Fraction(0)) + powers[place] - powers[place + 1]
    total = sum(masses.values(), Fraction(0))
    return {cells: mass / total for cells, mass in masses.items()}


def candidates(class_: Sequence[Query], rows: int) -> Iterator[Cells]:
    """All multisets of first cells."""
    first: dict[tuple[Fraction, ...], int] = {}
    for cell in range(class_[0].schema.cells):
        first.setdefault(tuple(weight(query, cell) for query in class_), cell)
    yield from itertools.combinations_with_replacement(sorted(first.values()), rows)


@NAMES
def test_the_law_is_the_exponential_mechanism_to_the_last_bit(name: str) -> None:
    """Equal as rationals to b^{score·rows·unit}, written out."""
    class_, rows, scale = CLASSES[name], 3, 1.75
    true = (0, 0, 1, 2, 2) if class_[0].schema is THREE else (0, 0, 3, 4, 5)
    unit = rows * math.lcm(*(query.scale for query in class_))
    ratio = Synthesis(class_, rows, len(true), scale).ratio
    weights = {drawn: ratio ** int(score(class_, true, drawn) * unit) for drawn in candidates(class_, rows)}
    assert all((score(class_, true, drawn) * unit).denominator == 1 for drawn in weights)
    total = sum(weights.values(), Fraction(0))
    assert law(class_, true, rows, scale) == {drawn: each / total for drawn, each in weights.items()}
    # b is e^{−1/(scale·unit)}, rounded up.
    assert -1e-15 < math.log(ratio) * scale * unit + 1 < 1e-12


def test_bands_and_listing_have_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total variation 0 between dynamic programming and enumeration."""
    for name in ("prefixes", "intervals", "prefixes from above"):
        for true in ((0, 0, 1, 2, 2), (2,), (0, 1, 1)):
            by_bands = law(CLASSES[name], true, 4, 3.0)
            with monkeypatch.context() as patch:
                patch.setattr("treering.domain.candidates.arcs", lambda _: None)
                assert Synthesis(CLASSES[name], 4, len(true), 3.0)._candidates.method == "enumeration"
                assert law(CLASSES[name], true, 4, 3.0) == by_bands


# -- the claimed loss --------------------------------------------------------------------------------------------------


def worst_ratio(class_: Sequence[Query], size: int, rows: int, scale: float) -> Fraction:
    """The largest ratio of a database's probabilities, over all neighbours."""
    cells = list(candidates(class_, 1))
    databases = list(itertools.combinations_with_replacement([cell for (cell,) in cells], size))
    laws = {true: law(class_, true, rows, scale) for true in databases}
    worst = Fraction(1)
    for true in databases:
        for place, (cell,) in itertools.product(range(size), cells):
            other = laws[tuple(sorted((*true[:place], cell, *true[place + 1 :])))]
            worst = max(worst, *(mass / other[drawn] for drawn, mass in laws[true].items()))
    return worst


@pytest.mark.parametrize("name", ["prefixes", "intervals", "enumeration", "only weighted"])
def test_no_neighbour_changes_a_probability_by_more_than_charged(name: str) -> None:
    class_, scale = CLASSES[name], 2.0
    gate, _ = kernel((0, 1, 1), class_[0].schema)
    charged = gate.draw_rows(class_, 2, scale).cost.epsilon
    assert charged is not None
    assert charged == 2 * max(Fraction(query.spread, query.scale) for query in class_) / Fraction(scale)
    assert worst_ratio(class_, 3, 2, scale) <= math.exp(charged) * (1 + 1e-12)


def test_the_half_cannot_be_dropped() -> None:
    """A "monotone" score would cost 1/scale: the true loss is twice that, almost."""
    scale = 0.25
    worst = math.log(worst_ratio(CLASSES["prefixes"], 4, 1, scale))
    assert 1.999 / scale < worst <= 2 / scale


# -- in the kernel -----------------------------------------------------------------------------------------------------


@NAMES
def test_a_draw_is_released_charged_and_written_down(name: str) -> None:
    class_ = CLASSES[name]
    gate, db = kernel((0, 1, 1, 2), class_[0].schema)
    event = gate.draw_rows(class_, 3, 4.0)
    assert isinstance(event, RowsDrawn)
    assert (event.size, event.rows, event.queries) == (4, 3, tuple(class_))
    assert event.cells in list(candidates(class_, 3))
    spread = max(Fraction(query.spread, query.scale) for query in class_)
    assert event.cost.epsilon == gate.spent == spread / 2
    assert event.cost.rho == (spread / 2) ** 2 / 8
    assert gate.history == (event,)
    restored = db.open_gate(gate.budget)
    assert (restored.spent, restored.history) == (gate.spent, gate.history)
    record: Gate = RecordedGate(db.schema, db.size, gate.budget, gate.history)
    assert record.draw_rows(class_, 3, 4.0) == event


def test_a_small_scale_finds_the_best_database() -> None:
    gate, _ = kernel((0, 0, 0, 2, 2, 1), THREE)
    assert gate.draw_rows(CLASSES["prefixes"], 6, 0.01).cells == (0, 0, 0, 1, 2, 2)
    assert gate.draw_rows(CLASSES["intervals"], 6, 0.01).cells == (0, 0, 0, 1, 2, 2)
    assert gate.draw_rows(CLASSES["prefixes from above"], 6, 0.01).cells == (0, 0, 0, 1, 2, 2)
    for _ in range(20):  # Several are the best.
        gate, _ = kernel((0, 0, 1, 5), SCHEMA)
        assert score(CLASSES["enumeration"], (0, 0, 1, 5), gate.draw_rows(CLASSES["enumeration"], 4, 0.01).cells) == 0


def test_missing_and_other_values_come_along() -> None:
    schema = tr.Schema({"late": tr.bins([0, 15, 60], other=True, missing=True), "w": tr.categories("a", "b")})
    true = [0] * 3 + [1] + [2] * 2 + [5] * 4 + [6, 7]
    gate, _ = kernel(true, schema)
    for class_ in (prefixes(schema, "late"), ranges(schema, "late"), [tr.parse("late >= 15 AND late < 60", schema)]):
        cells = gate.draw_rows(class_, len(true), 0.01).cells
        for query in class_:
            assert sum(weight(query, cell) for cell in cells) == sum(weight(query, cell) for cell in true)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"queries": []}, tr.ParameterError, "queries must name at least one query"),
        ({"queries": [B]}, tr.QueryError, "another schema"),
        ({"queries": ["v = 1"]}, tr.QueryError, "must be a Query"),
        ({"rows": 0}, tr.ParameterError, "rows must be an integer of at least 1"),
        ({"rows": -3}, tr.ParameterError, "rows must be"),
        ({"rows": 2.0}, tr.ParameterError, "rows must be"),
        ({"rows": True}, tr.ParameterError, "rows must be"),
        ({"rows": 10**6}, tr.ParameterError, "rows is 1,000,000, and with 3 atoms at most 87,381 are possible"),
        ({"scale": 0.0}, tr.ParameterError, "scale must be"),
        ({"scale": -1.0}, tr.ParameterError, "scale must be"),
        ({"scale": float("nan")}, tr.ParameterError, "scale must be"),
        ({"scale": float("inf")}, tr.ParameterError, "scale must be"),
    ],
)
def test_bad_requests_are_refused_for_free(options: dict[str, Any], error: type[Exception], match: str) -> None:
    gate, db = kernel((0, 1, 2), THREE)
    with pytest.raises(error, match=match):
        gate.draw_rows(**{"queries": CLASSES["prefixes"], "rows": 2, "scale": 1.0, **options})
    assert (float(gate.spent), db.touched, len(gate.history)) == (0, 0, 0)


def test_what_cannot_be_paid_touches_nothing() -> None:
    gate, db = kernel((0, 1, 2), THREE, total=0.5)
    with pytest.raises(tr.BudgetExceeded):
        gate.draw_rows(CLASSES["prefixes"], 2, 1.0)
    assert (float(gate.spent), db.touched, len(gate.history)) == (0, 0, 0)


def test_an_empty_database_is_refused() -> None:
    gate, _ = kernel((), THREE)
    with pytest.raises(tr.ParameterError, match="size is 0"):
        gate.draw_rows(CLASSES["prefixes"], 2, 1.0)


def test_scores_that_would_overflow_are_refused_on_public_grounds() -> None:
    with pytest.raises(tr.ParameterError, match=r"resolution \(4\) must stay below 2\^62"):
        Synthesis(CLASSES["weighted"], 10, 2**57, 1.0)
    Synthesis(CLASSES["weighted"], 7, 2**57, 1.0)
    with pytest.raises(tr.ParameterError, match="scale is too small"):
        Synthesis(CLASSES["prefixes"], 10, 2**57, 1e-3)


# -- the listing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("atoms", "rows"), [(1, 1), (1, 5), (2, 1), (2, 7), (3, 2), (4, 3), (7, 2), (5, 6)])
@pytest.mark.parametrize("block", [1, 10, 2**18])
def test_the_listing_is_complete(atoms: int, rows: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multisets, "_BLOCK", block)
    blocks = [tuple(map(tuple, part.tolist())) for part in listing(atoms, rows)]
    lines = list(itertools.chain(*blocks))
    assert len(lines) == len(set(lines)) == math.comb(atoms + rows - 1, rows)
    assert all(sum(line) == rows and min(line) >= 0 and len(line) == atoms for line in lines)


# -- large classes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10**3, 10**4, 10**6])
def test_256_thresholds_in_200_rows_take_less_than_a_minute(size: int) -> None:
    """Much less. The error is far below α, which fails with probability 1e-9 at the most."""
    schema = tr.Schema({"v": tr.integers(0, 255)})
    generator = np.random.default_rng(2)
    true = generator.choice(256, size, p=generator.dirichlet(np.full(256, 0.5)))
    gate, _ = kernel(true.tolist(), schema)
    start = time.monotonic()
    cells = gate.draw_rows(prefixes(schema, "v"), 200, 2.0).cells
    assert time.monotonic() - start < 60
    gaps = np.cumsum(np.bincount(true, minlength=256) / size - np.bincount(cells, minlength=256) / 200)
    bound = 1 / 400 + 2 * (math.log(math.comb(455, 200)) + math.log(1e9)) / size
    assert np.abs(gaps).max() <= bound


def test_all_intervals_of_32_values_in_40_rows() -> None:
    schema = tr.Schema({"v": tr.integers(0, 31)})
    true = np.minimum(np.random.default_rng(3).geometric(0.1, 10_000) - 1, 31)
    gate, _ = kernel(true.tolist(), schema)
    cells = gate.draw_rows(ranges(schema, "v"), 40, 2.0).cells
    gaps = np.cumsum(np.bincount(true, minlength=32) / 10_000 - np.bincount(cells, minlength=32) / 40)
    bound = 1 / 40 + 2 * (math.log(math.comb(71, 40)) + math.log(1e9)) / 10_000
    assert max(0, gaps.max()) - min(0, gaps.min()) <= bound
