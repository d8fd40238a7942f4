"""Any threshold: a number is compared with any other, through a lens that has the bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from treering.domain.attribute import Bins
from treering.domain.axis import axes_of, refines
from treering.domain.language.parse import MOST_CUTS
from treering.domain.query import Query

COMPARED: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}
NUMBERS = st.integers(-30, 30) | st.floats(-30, 30, allow_nan=False).map(lambda value: round(value, 2))


@st.composite
def schemas(draw: st.DrawFn) -> tr.Schema:
    """A schema with bins, which hold everything or refuse what lies outside, or with numbers."""
    edges = sorted(draw(st.sets(st.integers(-20, 20), min_size=2, max_size=5)))
    kind = draw(st.sampled_from(["strict", "bins", "numbers"]))
    if kind == "numbers":
        return tr.Schema({"x": tr.numbers(-20, 20, step=0.25, edges=edges), "y": tr.integers(0, 2)})
    return tr.Schema({"x": tr.bins(edges, other=kind == "bins", missing=True), "y": tr.integers(0, 2)})


def members(query: Query, values: list[float | None]) -> list[bool]:
    """Which values of x match, if y is 1."""
    codes = axes_of(query.schema)[0].classify(values)
    table = np.broadcast_to(query._spread_over((0, 1)), query.schema.shape[:2])
    return [bool(table[code, 1]) for code in codes]


@settings(max_examples=300, deadline=None)
@given(schemas(), st.sampled_from(list(COMPARED)), NUMBERS, st.lists(NUMBERS, max_size=4), st.booleans())
def test_a_comparison_matches_what_python_finds(
    schema: tr.Schema, sign: str, bound: float, others: list[float], negated: bool
) -> None:
    attribute = schema.attributes["x"]
    assert isinstance(attribute, Bins)
    text = f"x {sign} {bound!r}"
    if sign in ("=", "<>") and not attribute.other and not attribute.edges[0] <= bound <= attribute.edges[-1]:
        with pytest.raises(tr.QueryError):
            tr.parse(text, schema, finer=True)
        return
    query = tr.parse(f"NOT ({text})" if negated else text, schema, finer=True)
    around = [bound, math.nextafter(bound, math.inf), math.nextafter(bound, -math.inf), *others, *attribute.edges]
    values = [each for each in around if attribute.other or attribute.edges[0] <= each <= attribute.edges[-1]]
    expected = [COMPARED[sign](each, bound) != negated for each in values]
    assert members(query, [float(each) for each in values]) == expected
    assert members(query, [None]) == [False]
    assert tr.parse(str(query), schema, finer=True).under(query.schema) == query
    assert refines(query.schema, schema)


@settings(max_examples=100, deadline=None)
@given(schemas(), NUMBERS, NUMBERS, NUMBERS)
def test_bounds_join_in_one_predicate_and_between_predicates(
    schema: tr.Schema, one: float, other: float, third: float
) -> None:
    text = f"(x > {one!r} AND y = 1) OR x <= {other!r}"
    whole = tr.parse(text, schema, finer=True)
    apart = tr.parse(f"x > {one!r} AND y = 1", schema, finer=True) | tr.parse(f"x <= {other!r}", schema, finer=True)
    assert apart == whole.under(apart.schema)
    third_query = tr.parse(f"x < {third!r}", schema, finer=True)
    assert (whole & third_query) == (third_query & whole)


def test_between_means_what_people_mean() -> None:
    schema = tr.Schema({"amount": tr.numbers(0, 2000, step=0.01, edges=[0, 100, 150, 2000])})
    query = tr.parse("amount BETWEEN 100 AND 1000", schema, finer=True)
    codes = axes_of(query.schema)[0].classify([99.99, 100.0, 1000.0, math.nextafter(1000, 2000)])
    assert query.masks is not None
    assert query.masks[0][codes].tolist() == [False, True, True, False]
    assert str(query) == "amount BETWEEN 100 AND 1000"


@pytest.mark.parametrize("text", ["x = 5", "x > 2.5", "x <= 10", "x BETWEEN 1 AND 12"])
def test_cells_alone_do_not_tell_it(text: str) -> None:
    """Without ``finer``, as for mechanisms that count cells."""
    schema = tr.Schema({"x": tr.bins([0, 10, 20])})
    with pytest.raises(tr.QueryError, match="cut the bin|only the bins"):
        tr.parse(text, schema)
    assert tr.parse(text, schema, finer=True).schema != schema


@pytest.mark.parametrize("bound", ["1e400", "-1e400", "9007199254740993", "1e300"])
def test_rejects_bounds_beyond_all_edges(bound: str) -> None:
    with pytest.raises(tr.QueryError, match="share one cell"):
        tr.parse(f"x < {bound}", tr.Schema({"x": tr.bins([0, 10], other=True)}), finer=True)


def test_rejects_more_bounds_than_are_told_apart() -> None:
    schema = tr.Schema({"x": tr.bins([0, 10_000], other=True)})
    many = " OR ".join(f"x = {each}.5" for each in range(MOST_CUTS + 1))
    with pytest.raises(tr.QueryError, match="too many numbers: at most 1,024"):
        tr.parse(many, schema, finer=True)
    few = " OR ".join(f"x < {each}.5" for each in range(500))
    assert str(tr.parse(few, schema, finer=True)) == "x < 499.5"


def test_a_literal_is_the_decimal_number_that_it_says() -> None:
    """0.1 is the double that is written so; a longer literal lies between two doubles."""
    schema = tr.Schema({"x": tr.bins([0, 1], other=True)})
    tenth = float(Decimal("0.1"))
    for text, inside in (("x < 0.1", False), ("x <= 0.1", True), ("x < 0.10000000000000000001", True)):
        query = tr.parse(text, schema, finer=True)
        assert query.masks is not None
        assert bool(query.masks[0][axes_of(query.schema)[0].classify([tenth])[0]]) == inside
