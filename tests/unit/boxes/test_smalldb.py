"""SmallDB: what it chooses, what it refuses, what its release answers. (The contract suite has the rest.)"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Budget
from treering.domain.query import Query
from treering.domain.workload import marginals, prefixes, ranges
from treering.gate import RowsDrawn
from treering.theory import smalldb as theory

SCHEMA = tr.Schema({"v": tr.integers(0, 63), "w": tr.categories("a", "b", "c")})
PURE = Budget("pure", Fraction(1))
WIDE = tr.Schema({f"a{place}": tr.categories("n", "y") for place in range(12)})


def database(size: int, seed: int = 0) -> TestDatabase:
    generator = np.random.default_rng(seed)
    values = np.minimum(generator.geometric(0.08, size) - 1, 63)
    return TestDatabase(SCHEMA, (values * 3 + generator.integers(0, 3, size)).tolist())


def drawn(db: TestDatabase, box: SmallDB, budget: Budget = PURE) -> RowsDrawn:
    box.bind(db.schema).run(db.open_gate(budget), budget, 1.0, 0.05)
    (event,) = db.journal.events()
    assert isinstance(event, RowsDrawn)
    return event


def test_alpha_is_the_theorem_at_the_rows_that_are_drawn() -> None:
    """For prefixes 1/(2m) + 2(log|R| + log(1/β))/(εn)."""
    db = database(5000)
    box = SmallDB(prefixes(SCHEMA, "v"))
    rows = drawn(db, box).rows
    bounds = {m: 0.5 / m + 2 * (theory.log_candidates(64, m) + np.log(20)) / 5000 for m in range(1, 200)}
    assert box.bind(SCHEMA).alpha(5000, PURE, 0.05) == pytest.approx(min(bounds.values()), rel=1e-9)
    assert bounds[rows] == min(bounds.values())


def test_more_rows_are_drawn_from_a_larger_database() -> None:
    rows = [drawn(database(size), SmallDB(prefixes(SCHEMA, "v"))).rows for size in (500, 5000, 50_000)]
    assert rows == sorted(set(rows))


def test_intervals_are_drawn_as_prefixes_where_that_is_better() -> None:
    """Of 64 values intervals can be drawn with 512 rows: enough for few rows, too few for many."""
    class_ = ranges(SCHEMA, "v")
    box = SmallDB(class_).bind(SCHEMA)
    few, many = database(2000), database(2_000_000)
    assert set(drawn(few, box).queries) == set(box._class.queries)
    through = drawn(many, box)
    assert len(through.queries) == 63
    assert through.rows > 512
    for db, size in ((few, 2000), (many, 2_000_000)):
        release = box.run(db.open_gate(Budget("pure", Fraction(3))), PURE, 1.0, 1e-9)
        shares, errors = release.shares(class_)
        truth = db.rows.cells.count_many(class_) / size
        assert (np.abs(shares - truth) <= errors).all()
        assert errors[0] == box.alpha(size, PURE, 1e-9)


def test_the_weights_spread_decides_the_scale() -> None:
    """A query between ½ and ¾ moves by a quarter of a row: the same budget buys four times the accuracy."""
    wide = SmallDB([Query.where(SCHEMA, w="a")]).bind(SCHEMA)
    narrow = SmallDB([Query.weighted(SCHEMA, [0.75, 0.5, 0.5], attributes=["w"], resolution=4)]).bind(SCHEMA)
    assert theory.noise(1000, PURE, max(narrow._class.spreads)) == theory.noise(4000, PURE)
    assert narrow.alpha(1000, PURE, 0.05) < wide.alpha(1000, PURE, 0.05)
    event = drawn(database(1000), narrow)
    assert event.cost.epsilon is not None
    assert Fraction(999, 1000) < event.cost.epsilon <= 1


def test_constant_queries_are_public() -> None:
    db = database(100)
    release = SmallDB([Query.all(SCHEMA), Query.none(SCHEMA)]).release(db, epsilon=1.0)
    assert [(answer.value, answer.error) for answer in release.ask_many(["TRUE", "FALSE"])] == [(1, 0), (0, 0)]
    assert (db.touched, len(db.journal.events())) == (0, 0)
    assert release.sample(7, np.random.default_rng(0)).num_rows == 7
    assert SmallDB([Query.all(SCHEMA)]).bind(SCHEMA).rate is None


def test_answers_are_those_of_the_synthetic_rows() -> None:
    db = database(3000)
    box = SmallDB(["v < 10", "w = 'a'", "v < 10 AND w = 'b'"]).bind(SCHEMA)
    gate = db.open_gate(PURE)
    release = box.run(gate, PURE, 1.0, 0.05)
    (event,) = gate.history
    assert isinstance(event, RowsDrawn)
    rows = [SCHEMA.values(cell) for cell in event.cells]
    expected = [
        sum(row["v"] < 10 for row in rows if isinstance(row["v"], int)) / len(rows),
        sum(row["w"] == "a" for row in rows) / len(rows),
    ]
    assert [answer.value for answer in release.ask_many(["v < 10", "w = 'a'"])] == pytest.approx(expected)
    assert release.ask("v >= 10").value == pytest.approx(1 - expected[0])
    with pytest.raises(tr.QueryError, match="not among the 3 queries that this SmallDB was made for"):
        release.ask("v < 11")


def test_samples_follow_the_synthetic_rows() -> None:
    db = database(3000)
    box = SmallDB(["v < 10", "w = 'a'"]).bind(SCHEMA)
    release = box.run(db.open_gate(PURE), PURE, 1.0, 0.05)
    table = release.sample(20_000, np.random.default_rng(1))
    low = sum(value < 10 for value in table.column("v").to_pylist()) / 20_000
    assert low == pytest.approx(release.ask("v < 10").value, abs=0.02)
    # Within an atom all values are alike: w is "b" or "c", v is any from 10 on.
    counts = Counter(row["v"] for row in table.to_pylist() if row["v"] >= 10)
    assert len(counts) == 54
    assert release.sample(0, np.random.default_rng(1)).num_rows == 0
    bad_rows: tuple[Any, ...] = (-1, 1.5, True)
    for bad in bad_rows:
        with pytest.raises(tr.ParameterError, match="rows"):
            release.sample(bad, np.random.default_rng(1))


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_an_infeasible_class_is_told_what_would_do() -> None:
    with pytest.raises(tr.GuaranteeError) as caught:
        SmallDB(marginals(WIDE, 2)).bind(WIDE)
    message = str(caught.value)
    assert "264 queries tell 4,096 atoms" in message
    assert "314 rows, about 10^490" in message
    assert "at most 1,000,000" in message
    assert "AnswersBox would do: its error for a million rows and an epsilon of 1 is at most 0.0" in message


def test_an_infeasible_class_of_many_queries_is_sent_to_the_histogram() -> None:
    with pytest.raises(tr.GuaranteeError, match="HistogramBox would do"):
        SmallDB([*marginals(SCHEMA, 1), *marginals(SCHEMA, 2), *ranges(SCHEMA, "v")]).bind(SCHEMA)


def test_a_class_of_many_attributes_is_sent_elsewhere() -> None:
    huge = tr.Schema({f"a{place}": tr.integers(0, 999) for place in range(4)})
    with pytest.raises(tr.GuaranteeError, match=r"its queries name a0, a1, a2, with 1,000,000,000 joint values.*would"):
        SmallDB([Query.where(huge, **{f"a{place}": 1}) for place in range(3)]).bind(huge)


def test_bad_classes_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="queries must be at least one"):
        SmallDB([])
    with pytest.raises(tr.QueryError, match="another schema"):
        SmallDB([Query.all(WIDE)]).bind(SCHEMA)
    with pytest.raises(tr.QueryError, match="colour"):
        SmallDB(["colour = 'red'"]).bind(SCHEMA)


def test_a_queries_order_does_not_matter_for_categories() -> None:
    """No attribute needs an order: a class of sets of categories is drawn all the same."""
    box = SmallDB(["w = 'a'", "w = 'b'"]).bind(SCHEMA)
    assert box.alpha(10_000, PURE, 0.05) < 0.01


# -- scaling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_", [prefixes(SCHEMA, "v"), ranges(SCHEMA, "v"), [Query.where(SCHEMA, v=1), Query.where(SCHEMA, w="a")]]
)
def test_alpha_depends_on_size_times_budget_alone(class_: list[Query]) -> None:
    box = SmallDB(class_).bind(SCHEMA)
    for size, factor in itertools.product((100, 12_345, 10**9), (2, 3, 1000)):
        assert box.alpha(size * factor, Budget("pure", Fraction(1, factor)), 0.05) == box.alpha(size, PURE, 0.05)
        zcdp = Budget("zcdp", Fraction(1, 7))
        after = Budget("zcdp", Fraction(1, 7 * factor**2))
        assert box.alpha(size * factor, after, 0.05) == box.alpha(size, zcdp, 0.05)


def test_no_size_beats_the_floor() -> None:
    box = SmallDB([Query.where(SCHEMA, v=1), Query.where(SCHEMA, w="a")]).bind(SCHEMA)
    assert box.alpha(10**30, PURE, 0.05) == pytest.approx(box._choices.floor)
