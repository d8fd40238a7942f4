"""A distribution fitted to what series say: it agrees with them, is never negative, and knows how independence goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.mechanisms.series.picture import MOST_CELLS, Shares, Sketch, _projected

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", "east", other=True),
        "sex": tr.categories("f", "m"),
        "cost": tr.numbers(0, 500, step=0.01, edges=[0, 50, 100, 500]),
        "month": tr.integers(1, 12),
    }
)


def rows(number: int) -> pa.Table:
    drawn = np.random.default_rng(5)
    ward = drawn.choice(["north", "south", "east"], number, p=[0.5, 0.3, 0.2])
    sex = np.where(ward == "north", "f", drawn.choice(["f", "m"], number))
    cost = np.minimum(499.0, drawn.lognormal(3.5 + 0.5 * (ward == "east"), 0.8, number))
    return pa.table({"ward": ward, "sex": sex, "cost": cost, "month": drawn.integers(1, 13, number)})


TABLE = rows(30_000)


def truth(condition: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    return float(condition.mean())


@pytest.fixture(scope="module")
def rings() -> tr.Rings:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(TABLE)
    rings = tr.Rings(db, epsilon=1.0, delta=1e-6)
    rings.table(["ward", "sex"])
    rings.ask_many([f"ward = '{ward}' AND cost >= 37.5" for ward in ("north", "south", "east")])
    return rings


def test_nothing_was_released_yet() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(TABLE)
    with pytest.raises(tr.QueryError, match="nothing was released yet"):
        tr.Rings(db, epsilon=1.0, delta=1e-6).sample(10)


def test_an_estimate_of_what_was_asked_is_near_the_answer_and_costs_nothing(rings: tr.Rings) -> None:
    before = rings.spent
    asked = ["ward = 'north' AND sex = 'f'", "ward = 'east' AND cost >= 37.5", "sex = 'm'"]
    queries = [tr.parse(text, SCHEMA, finer=True) for text in asked]
    for guess, text in zip(rings.estimates(queries), asked, strict=True):
        told = rings.ask(text)
        assert abs(guess.value - told.value) <= 1.5 * told.margin + 0.002
        assert (guess.kind, guess.error, guess.margin) == ("estimate", 1.0, 1.0)
    assert rings.spent == before


def test_what_was_never_asked_is_estimated_as_independent(rings: tr.Rings) -> None:
    (guess,) = rings.estimates([tr.parse("month = 3 AND ward = 'south'", SCHEMA)])
    assert abs(guess.value - 0.3 / 12) < 0.005


def test_a_threshold_within_a_bin_is_estimated_by_its_width(rings: tr.Rings) -> None:
    above, far = rings.estimates([tr.parse(f"cost >= {edge}", SCHEMA, finer=True) for edge in (37.5, 300)])
    cost = TABLE["cost"].to_numpy()
    assert abs(above.value - truth(cost >= 37.5)) < 0.02
    assert 0 < far.value < above.value


def test_synthetic_rows_have_the_shares_of_the_picture(rings: tr.Rings) -> None:
    drawn = rings.sample(20_000)
    assert drawn.schema.names == list(SCHEMA.names)
    assert rings.sample(20_000).equals(drawn)
    ward, sex = drawn["ward"].to_numpy(zero_copy_only=False), drawn["sex"].to_numpy(zero_copy_only=False)
    expected = rings.estimates([tr.parse("ward = 'south' AND sex = 'm'", SCHEMA)])[0].value
    assert abs(((ward == "south") & (sex == "m")).mean() - expected) < 0.01
    month = drawn["month"].to_numpy()
    assert abs(((month == 3) & (ward == "north")).mean() - 0.5 / 12) < 0.01  # Tables are drawn as if independent.
    random = rings.sample(20_000, np.random.default_rng(1))
    assert not random.equals(drawn)
    again = tr.GrowingDatabase(SCHEMA)
    assert again.append(random) == 20_000
    assert rings.sample(0).num_rows == 0


def test_a_picture_is_fitted_anew_once_series_have_moved(rings: tr.Rings) -> None:
    one = rings.picture()
    assert rings.picture() is one
    rings.ask("month = 7")
    assert rings.picture() is not one


@pytest.mark.parametrize("number", [-1, 1.5, True, "10"])
def test_rejects_rows_that_are_no_number(rings: tr.Rings, number: Any) -> None:
    with pytest.raises(tr.ParameterError, match="rows"):
        rings.sample(number)


def test_series_that_would_join_too_many_cells_are_left_out() -> None:
    wide = tr.Schema({name: tr.integers(1, 2**9) for name in "abc"})
    even = [np.full(2**9, 2.0**-9)] * 3
    pair = np.arange(2**18).reshape(2**9, 2**9)
    first = Shares((0, 1), pair, np.append(np.full(2**18, 2.0**-18), 0.0), 0.1)
    second = Shares((1, 2), pair, np.append(np.full(2**18, 2.0**-18), 0.0), 0.2)
    single = Shares((2,), (np.arange(2**9) > 0).astype(np.int64), np.array([0.5, 0.5, 0.0]), 0.3)
    picture = Sketch(wide, [second, first, single], even).fitted()
    assert picture.share(tr.parse("c = 1", wide)) == pytest.approx(0.5)
    assert picture.share(tr.parse("a = 1 AND b = 1", wide)) == pytest.approx(2.0**-18)
    assert MOST_CELLS == 2**18


def test_a_table_of_weights_is_estimated() -> None:
    picture = Sketch(SCHEMA, [], [np.full(size, 1 / size) for size in SCHEMA.shape]).fitted()
    either = tr.parse("(ward = 'north' AND sex = 'f') OR (ward = 'south' AND month = 1)", SCHEMA)
    assert picture.share(either) == pytest.approx(0.25 * 0.5 + 0.25 / 12)
    assert picture.share(tr.Query.all(SCHEMA)) == 1
    assert picture.share(tr.Query.none(SCHEMA)) == 0


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=20))
def test_the_nearest_shares_are_not_negative_and_add_up(shares: list[float]) -> None:
    given_ = np.array(shares)
    found = _projected(given_)
    assert (found >= 0).all()
    assert math.isclose(found.sum(), 1, abs_tol=1e-9)
    for other in (np.full(len(shares), 1 / len(shares)), np.eye(len(shares))[0]):
        assert ((found - given_) ** 2).sum() <= ((other - given_) ** 2).sum() + 1e-9
