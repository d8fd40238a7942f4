"""What SQL makes of released numbers, on rows whose truth is known: totals are exact, and 93% of all other numbers are
within their margins, for 12, 60 and 400 groups, under both promises.

Every life has noise of its own. Of 600 numbers of groups, which are nearly independent, less than 90% would be within
margins of 95% with probability below 1e-7, and of 240 less than 87%. Tops and the like hold in a life with 95% or more:
in 25 lives less than 15 do with probability below 1e-7, in 22 less than 13, and in 6 none with 2e-8. The broken twins
(noise around what is shown, margins of one answer alone, the ratio of normal quantiles for Laplace noise) fail in most
lives. That a margin is for 95%, not 94%, needs thousands of lives: a total of some rows is counted without a database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import treering as tr
from support.plans import estimates_of, noise_in
from treering.arrays import Floats
from treering.mechanisms.plan import Counted
from treering.sql.answer import answer, draws_for, split
from treering.theory.rings import joint

EACH = 40
"""The rows of a group: all have as many, so that tops are there for their noise alone."""
BASE = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
DELTA = {"zcdp": 1e-6, "pure": 0.0}
EPSILON = {12: 4.0, 60: 8.0, 400: 12.0}
NUMBERS = {12: 240, 60: 600, 400: 800}
LEAST = {12: 0.87, 60: 0.90, 400: 0.90}
LIVES, LEAST_LIVES = 25, 15

Truth = Callable[[Mapping[str, Any]], float]


class World(NamedTuple):
    schema: tr.Schema
    db: tr.GrowingDatabase
    late: dict[int, int]


@cache
def world(groups: int) -> World:
    schema = tr.Schema({"g": tr.integers(1, groups), "late": tr.categories(False, True)})
    db = tr.GrowingDatabase(schema)
    numbers = np.repeat(np.arange(1, groups + 1), EACH)
    late = np.arange(len(numbers)) % 7 < 3
    db.append(pa.table({"g": numbers, "late": late}))
    return World(schema, db, {group: int(late[numbers == group].sum()) for group in range(1, groups + 1)})


def live(text: str, groups: int, kind: str) -> list[dict[str, Any]]:
    """A statement answered by rings of their own."""
    schema, db, _ = world(groups)
    statement = split(text, schema)
    rings = tr.Rings(db, epsilon=EPSILON[groups], delta=DELTA[kind])
    told = estimates_of(rings, statement.items)
    noise = noise_in(rings, statement.items).draw(told, draws_for(statement))
    found: list[dict[str, Any]] = answer(statement, told, noise, db.size).to_pylist()
    return found


def within(found: list[dict[str, Any]], truth: Truth) -> list[bool]:
    """Which of the numbers that are told are within their margins."""
    told = [row for row in found if row["x"] is not None]
    return [row["x_margin"] is not None and abs(row["x"] - truth(row)) <= row["x_margin"] + 1e-9 for row in told]


CASES = [(groups, kind) for groups in (12, 60, 400) for kind in ("zcdp", "pure")]

# -- numbers of every group --------------------------------------------------------------------------------------------

SHARE = "SELECT g, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS x FROM t WHERE late GROUP BY g"
DIFFERENCE = "SELECT g, COUNT(*) FILTER (WHERE NOT late) - COUNT(*) FILTER (WHERE late) AS x FROM t GROUP BY g"
RATIO = "SELECT g, COUNT(*) FILTER (WHERE late) * 1.0 / COUNT(*) AS x FROM t GROUP BY g"


def truth_of(text: str, groups: int) -> Truth:
    late = world(groups).late
    whole = sum(late.values())
    return {
        SHARE: lambda row: late[row["g"]] * 100 / whole,
        DIFFERENCE: lambda row: EACH - 2 * late[row["g"]],
        RATIO: lambda row: late[row["g"]] / EACH,
    }[text]


@pytest.mark.parametrize(("groups", "kind"), CASES)
@pytest.mark.parametrize("text", [SHARE, DIFFERENCE, RATIO], ids=["share", "difference", "ratio"])
def test_shares_differences_and_ratios_keep_their_margins(text: str, groups: int, kind: str) -> None:
    inside: list[bool] = []
    for _ in range(NUMBERS[groups] // groups):
        inside += within(live(text, groups, kind), truth_of(text, groups))
    assert np.mean(inside) >= LEAST[groups]


# -- totals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "kind"), CASES)
def test_totals_that_are_public_are_exact(groups: int, kind: str) -> None:
    for _ in range(3):
        (row,) = live(f"SELECT SUM(n) AS x FROM ({BASE}) AS g", groups, kind)
        assert (row["x"], row["x_margin"]) == (groups * EACH, 0)


LATE = "SELECT SUM(n) AS x FROM (SELECT g, COUNT(*) AS n FROM t WHERE late GROUP BY g) AS g"


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
def test_totals_of_some_rows_keep_their_margins(kind: str) -> None:
    true = float(sum(world(60).late.values()))
    assert sum(within(live(LATE, 60, kind), lambda _: true)[0] for _ in range(LIVES)) >= LEAST_LIVES


# -- draws of its own for each release ---------------------------------------------------------------------------------

FEW = 19
"""With so few draws the largest one is a margin of 95%, and draws that are the same in all lives are far from it."""
CHEAP = 8000


class Cheap:
    """Lives of a total of some rows without a database: noise of the law that a release had, and what is drawn for it.

    The noise is numpy's, not that of `theory.draws`.
    """

    def __init__(self, kind: str) -> None:
        schema, db, self._late = world(12)
        items = split(LATE, schema).items
        rings = tr.Rings(db, epsilon=EPSILON[12], delta=DELTA[kind])
        self._told = estimates_of(rings, items)
        self._drawing = noise_in(rings, items)
        (stream,) = self._drawing.streams
        self._law, self._shape = stream.source.law, stream.shape
        self._generator = np.random.default_rng()

    def outside(self, frozen: str | None = None) -> float:
        """The share of lives whose error is beyond all draws; with draws of one release, ``frozen``, for all lives."""
        errors = self._errors()
        missed = 0
        once = None if frozen is None else self._widest([float(ord(letter)) for letter in frozen.ljust(12)])
        for error in errors:
            readings = [late + each for late, each in zip(self._late.values(), error.tolist(), strict=True)]
            missed += abs(error.sum()) > (self._widest(readings) if once is None else once) + 1e-9
        return missed / CHEAP

    def _widest(self, readings: list[float]) -> float:
        released = [replace(each, reading=reading) for each, reading in zip(self._told, readings, strict=True)]
        return float(np.abs(self._drawing.draw(released, FEW).sum(axis=1)).max())

    def _errors(self) -> Floats:
        """The errors of the late rows of each group: those of all cells are centred."""
        assert self._shape == (12, 2)
        noise = np.sqrt(self._law.variance) * self._generator.standard_normal((CHEAP, *self._shape))
        for weight, scale, number in self._law.parts:
            ends = self._generator.geometric(-np.expm1(-1 / scale), (2, number, CHEAP, *self._shape))
            noise += weight * (ends[0] - ends[1]).sum(axis=0)
        noise -= noise.mean(axis=(1, 2), keepdims=True)
        late: Floats = noise[:, :, 1]
        return late


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
def test_totals_of_some_rows_are_outside_with_5_percent(kind: str) -> None:
    """Six deviations of a share of 8,000 lives are 0.0146: a false alarm has a probability of 2e-9. Draws that do not
    depend on what was released, as they were once, give some releases 90% for ever and others 99%."""
    cheap = Cheap(kind)
    assert abs(cheap.outside() - 0.05) < 0.0146
    assert max(abs(cheap.outside(frozen) - 0.05) for frozen in ("one", "two", "three", "four", "five", "six")) > 0.02


def test_noise_around_what_is_shown_is_noticed() -> None:
    # Half of the groups of 40 rows, with noise that is as large, are clipped: the total of 400 is far off.
    public = "SELECT SUM(n) AS x FROM (SELECT g, COUNT(*) AS n FROM t WHERE late GROUP BY g) AS g"
    true = float(sum(world(400).late.values()))
    wrong = 0
    for _ in range(5):
        schema, db, _ = world(400)
        statement = split(public, schema)
        rings = tr.Rings(db, epsilon=1.0, delta=1e-6)
        told = estimates_of(rings, statement.items)
        noise = noise_in(rings, statement.items).draw(told, draws_for(statement))
        shown = [replace(each, reading=None) for each in told]
        (row,) = answer(statement, shown, noise, db.size).to_pylist()
        wrong += abs(row["x"] - true) > row["x_margin"]
    assert wrong >= 4


# -- what is chosen ----------------------------------------------------------------------------------------------------

CHOSEN = {
    "flat top": (f"{BASE} ORDER BY n DESC LIMIT 3", EACH),
    "nested top": (f"SELECT * FROM ({BASE} ORDER BY n DESC) AS a LIMIT 3", EACH),
    "nested limit": (f"SELECT g, 2 * n AS n FROM ({BASE} ORDER BY n DESC LIMIT 3) AS a", 2 * EACH),
    "having": (f"{BASE} HAVING COUNT(*) > {EACH}", EACH),
    "offset": (f"{BASE} UNION ALL {BASE} ORDER BY n DESC LIMIT 2 OFFSET 1", EACH),
    "first of each": (f"SELECT DISTINCT ON (k) 1 AS k, n FROM ({BASE}) AS a ORDER BY k, n DESC", EACH),
    "joined": (
        f"SELECT a.g, a.n FROM ({BASE}) AS a JOIN (SELECT MAX(n) AS m FROM ({BASE}) AS b) AS c ON a.n >= c.m",
        EACH,
    ),
    "maximum": (f"SELECT MAX(n) AS n FROM ({BASE}) AS a", EACH),
    "filter": (f"SELECT COUNT(*) FILTER (WHERE n > {EACH}) AS n FROM ({BASE}) AS a", 0),
    "above": (f"SELECT COUNT(*) AS n FROM ({BASE}) AS a WHERE n > {EACH}", 0),
    "sum of top": (f"SELECT SUM(n) AS n FROM ({BASE} ORDER BY n DESC LIMIT 3) AS a", 3 * EACH),
}


def kept(name: str, groups: int, kind: str) -> bool:
    """Whether all numbers of a statement are within their margins, in a life."""
    text, true = CHOSEN[name]
    return all(abs(row["n"] - true) <= row["n_margin"] for row in live(text, groups, kind))


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_chosen_among_400_for_its_noise_keeps_joint_margins(name: str) -> None:
    # With margins of one answer alone no life would: the greatest of 400 is beyond 1.96 deviations but with 1e-4.
    assert any(kept(name, 400, "zcdp") for _ in range(6))


@pytest.mark.parametrize(("groups", "kind"), [(12, "zcdp"), (60, "pure"), (400, "pure")])
def test_what_is_chosen_keeps_joint_margins_in_most_lives(groups: int, kind: str) -> None:
    assert sum(kept(name, groups, kind) for name in CHOSEN for _ in range(2)) >= 13


def test_joint_margins_by_normal_quantiles_would_not_hold_for_laplace_noise() -> None:
    schema, db, _ = world(400)
    statement = split(BASE, schema)
    held = normal = 0
    for _ in range(30):
        rings = tr.Rings(db, epsilon=2.0)
        told = estimates_of(rings, statement.items)
        # The margin that is stated is a bound by exponential moments: the quantile itself is taken from draws.
        alone = float(np.quantile(np.abs(noise_in(rings, statement.items).draw(told, 200)), 0.95))
        far = max(abs((each.raw or 0.0) - EACH) for each in told)
        held += far <= alone * joint(400, normal=False)
        normal += far <= alone * joint(400)
    assert held >= 16
    assert normal <= 25  # It misses with two thirds.


# -- other mechanisms --------------------------------------------------------------------------------------------------


def test_the_sum_of_overlapping_counts_of_another_mechanism_is_covered() -> None:
    schema = tr.Schema({"a": tr.integers(0, 9)})
    rows = pa.table({"a": np.repeat(np.arange(10), 2000)})
    parts = [f"COUNT(*) FILTER (WHERE a >= {each})" for each in (1, 2, 3, 4)]
    statement = split(f"SELECT {' + '.join(parts)} AS x FROM t", schema, sums=False)
    true = float(sum(2000 * (10 - each) for each in (1, 2, 3, 4)))
    kept = 0
    for _ in range(LIVES):
        db = tr.GrowingDatabase(schema)
        db.append(rows)
        mechanism = tr.ContinualHistogram(db, epsilon=1.0, beta=0.05)
        assert statement.queries is not None
        told = Counted(db.size, mechanism.ask_many(statement.queries)).estimates()
        kept += within(answer(statement, told, None, db.size).to_pylist(), lambda _: true)[0]
    assert kept >= LEAST_LIVES
