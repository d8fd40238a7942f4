"""Measurements of OpenDP's in the kernel: their own map is charged, what does not fit is refused, nothing leaks."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from opendp.domains import atom_domain, map_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_user_measurement
from opendp.measures import (
    approximate,
    max_divergence,
    renyi_divergence,
    smoothed_max_divergence,
    zero_concentrated_divergence,
)
from opendp.metrics import absolute_distance, l1_distance, l2_distance, linf_distance, symmetric_distance
from opendp.mod import Measurement, enable_features

import treering as tr
from support.databases import TestDatabase
from treering.budget.cost import Cost, pure
from treering.budget.promise import Budget
from treering.gate import ForeignReleased
from treering.trusted.kernel import Kernel
from treering.trusted.operations.foreign import (
    _LARGEST_COUNT,
    MOST_CELLS,
    _check_domain,
    _numbers,
    failure,
    price,
    released,
)

enable_features("contrib", "honest-but-curious")

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 3)})
ROWS = [0] * 7919 + [4] * 31337
COUNTS = [7919, 0, 0, 0, 31337, 0]
INTEGERS = vector_domain(atom_domain(T="i64"))


def kernel(kind: Any = "pure", total: float = 10) -> tuple[Kernel, TestDatabase]:
    db = TestDatabase(SCHEMA, ROWS)
    return db.open_gate(Budget(kind, Fraction(total))), db


def laplace(scale: float, domain: Any = INTEGERS, distance: str = "f64") -> Measurement:
    return make_laplace(domain, l1_distance(T=distance), scale=scale)


def gaussian(scale: float, distance: str = "f64") -> Measurement:
    return make_gaussian(INTEGERS, l2_distance(T=distance), scale=scale)


def made(
    function: Callable[[Any], Any] = lambda counts: counts,
    privacy_map: Callable[[Any], Any] = lambda _: 1.0,
    domain: Any = INTEGERS,
    metric: Any = None,
    measure: Any = None,
) -> Measurement:
    """A measurement made by a user."""
    metric = l1_distance(T="f64") if metric is None else metric
    measure = max_divergence() if measure is None else measure
    return make_user_measurement(domain, metric, measure, function, privacy_map)


# -- the price ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["f64", "i64", "i32"])
def test_laplace_noise_costs_two_over_its_scale(distance: str) -> None:
    cost = price(laplace(4.0, distance=distance), 6, 39256)
    assert cost == pure(Fraction(1, 2))


def test_gaussian_noise_costs_one_over_its_variance() -> None:
    cost = price(gaussian(4.0), 6, 39256)
    assert cost.epsilon is None
    assert Fraction(1, 16) <= cost.rho <= Fraction(1, 16) * (1 + Fraction(1, 10**12))


def test_whole_distances_round_the_root_of_two_up() -> None:
    """L2 distances in integers know nothing between 1 and 2: safe, and twice the price."""
    assert price(gaussian(4.0, distance="i64"), 6, 39256) == Cost(None, Fraction(1, 8))


@pytest.mark.parametrize(
    ("metric", "asked"),
    [
        (l1_distance(T="f64"), 2.0),
        (l1_distance(T="i64"), 2),
        (l2_distance(T="f64"), 1.4142135623730951),
        (l2_distance(T="u32"), 2),
    ],
)
def test_the_map_is_asked_at_the_distance_of_neighbours(metric: Any, asked: float) -> None:
    """One row replaced moves one count down and one up: 2 apart in L1, √2 in L2, and never less."""
    seen: list[float] = []

    def record(distance: float) -> float:
        seen.append(distance)
        return 1.0

    price(made(privacy_map=record, metric=metric), 6, 39256)
    assert seen == [asked]
    assert Fraction(asked) ** (2 if "L2" in str(metric) else 1) >= 2


def test_the_map_is_taken_at_its_exact_value() -> None:
    assert price(made(privacy_map=lambda _: 0.1), 6, 1).epsilon == Fraction(0.1) != Fraction(1, 10)
    rho = price(made(privacy_map=lambda _: 0.1, measure=zero_concentrated_divergence()), 6, 1)
    assert rho == Cost(None, Fraction(0.1))


def test_a_measurement_that_says_nothing_is_free() -> None:
    assert price(made(lambda _: [0.0] * 6, lambda _: 0.0), 6, 39256) == pure(Fraction(0))


# -- refusals ----------------------------------------------------------------------------------------------------------


def fail(_: float) -> float:
    raise ValueError("no bound")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no measurement": (lambda: len, "be a Measurement of OpenDP, not builtin_function_or_method"),
    "a scalar": (
        lambda: make_laplace(atom_domain(T="i64"), absolute_distance(T="i64"), scale=1.0),
        "take vectors of integers, .* not i64",
    ),
    "floats": (
        lambda: laplace(1.0, vector_domain(atom_domain(T="f64", nan=False))),
        "vectors of integers, .* not Vec<f64>: counts are integers until noised",
    ),
    "a table": (
        lambda: made(domain=map_domain(atom_domain(T="i64"), atom_domain(T="i64"))),
        "take vectors of integers",
    ),
    "too few cells": (lambda: laplace(1.0, vector_domain(atom_domain(T="i64"), size=5)), "vectors of 6 counts"),
    "too narrow bounds": (
        lambda: laplace(1.0, vector_domain(atom_domain(T="i64", bounds=(0, 39255)))),
        "counts from 0 to .*: 39,256",
    ),
    "bounds without zero": (
        lambda: laplace(1.0, vector_domain(atom_domain(T="i64", bounds=(1, 10**6)))),
        "counts from 0 to .*: 39,256",
    ),
    "rows as distance": (lambda: made(metric=symmetric_distance()), "l1_distance or l2_distance, .* SymmetricDistance"),
    "maximum as distance": (lambda: made(metric=linf_distance(T="f64")), "l1_distance or l2_distance, .*LInfDistance"),
    "distances in single precision": (lambda: made(metric=l2_distance(T="f32")), "T='f64' or an integer, .*f32"),
    "approximate privacy": (
        lambda: made(measure=approximate(max_divergence()), privacy_map=lambda _: (1.0, 1e-9)),
        "MaxDivergence .*not as Approximate<MaxDivergence>: .*delta",
    ),
    "a privacy profile": (lambda: made(measure=smoothed_max_divergence()), "not as SmoothedMaxDivergence"),
    "Rényi privacy": (lambda: made(measure=renyi_divergence()), "not as RenyiDivergence"),
    "a map that is infinite": (lambda: made(privacy_map=lambda _: float("inf")), "finite at a distance of 2"),
    "a map that is no number": (lambda: made(privacy_map=lambda _: float("nan")), "finite at a distance of 2"),
    "a map that is negative": (lambda: made(privacy_map=lambda _: -1.0), "finite at a distance of 2"),
    "a map that fails": (lambda: made(privacy_map=fail), "finite at a distance of 2"),
    "noise without scale": (lambda: laplace(0.0), "finite at a distance of 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_priced_is_refused_before_anything_happens(name: str) -> None:
    make, message = REFUSED[name]
    gate, db = kernel()
    with pytest.raises(tr.ParameterError, match=f"^measurement .*{message}") as caught:
        gate.foreign(make())
    assert caught.value.parameter == "measurement"
    assert gate.spent == db.touched == len(gate.history) == 0


def test_a_map_that_was_put_over_the_own_one_is_not_asked() -> None:
    measurement: Any = laplace(4.0)
    measurement.map, measurement.invoke = lambda _: 0.0, lambda counts: counts
    assert measurement.map(2.0) == 0.0
    assert price(measurement, 6, 39256) == pure(Fraction(1, 2))
    assert released(measurement, [0] * 1000) != (0,) * 1000


def test_a_type_must_have_room_for_every_count() -> None:
    narrow = laplace(1.0, vector_domain(atom_domain(T="i32")))
    assert price(narrow, 6, 2**31 - 1) == pure(Fraction(2))
    with pytest.raises(tr.ParameterError, match="counts from 0 to the number of rows: 2,147,483,648"):
        price(narrow, 6, 2**31)


def test_the_room_of_every_type_is_all_bits_but_the_sign() -> None:
    rooms = {
        f"{sign}{8 * size}": int.from_bytes(b"\xff" * size) >> (sign == "i")
        for sign in "iu"
        for size in (1, 2, 4, 8, 16)
    }
    assert rooms == _LARGEST_COUNT
    assert {kind: rooms[kind] for kind in ("i8", "u8", "i32")} == {"i8": 127, "u8": 255, "i32": 2_147_483_647}


@pytest.mark.parametrize("kind", ["i32", "i64", "u32", "u64"])
def test_the_last_count_that_fits_is_taken_and_the_next_is_not(kind: str) -> None:
    domain = vector_domain(atom_domain(T=kind))
    _check_domain(domain, 6, _LARGEST_COUNT[kind])
    with pytest.raises(tr.ParameterError, match="must take counts from 0 to the number of rows: "):
        _check_domain(domain, 6, _LARGEST_COUNT[kind] + 1)


def test_bounds_that_every_count_keeps_to_will_do() -> None:
    bounded = vector_domain(atom_domain(T="i64", bounds=(0, 39256)), size=6)
    assert price(laplace(1.0, bounded), 6, 39256) == pure(Fraction(2))


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(tr.ParameterError, match="at most 1,048,576, and this universe has 1,048,577"):
        price(laplace(1.0), MOST_CELLS + 1, 1)
    assert price(laplace(1.0), MOST_CELLS, 1) == pure(Fraction(2))


def test_what_the_budget_does_not_cover_is_refused_before_anything_happens() -> None:
    gate, db = kernel(total=0.4)
    with pytest.raises(tr.BudgetExceeded) as caught:
        gate.foreign(laplace(4.0))
    assert caught.value.requested == Fraction(1, 2)
    assert gate.spent == db.touched == len(gate.history) == 0


def test_zcdp_needs_a_zcdp_budget() -> None:
    gate, db = kernel()
    with pytest.raises(tr.ParameterError, match="delta > 0"):
        gate.foreign(gaussian(4.0))
    assert gate.spent == db.touched == len(gate.history) == 0


# -- what comes out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_counts_go_in_and_the_values_come_out(kind: str) -> None:
    gate, db = kernel(kind)
    event = gate.foreign(made(lambda counts: [2 * count for count in counts]))
    assert event == ForeignReleased(len(ROWS), pure(Fraction(1)), tuple(2 * count for count in COUNTS))
    assert gate.spent == (1 if kind == "pure" else Fraction(1, 2))
    assert list(gate.history) == [event]
    assert db.touched == 1


def test_real_noise_is_added() -> None:
    gate, _ = kernel("zcdp")
    for measurement in (laplace(50.0), gaussian(50.0)):
        values = np.array(gate.foreign(measurement).values)
        gaps = values - COUNTS
        # A draw beyond 50·50 has probability below 2e^{−50}; six zeros at scale 50 have one below 1e-11.
        assert np.abs(gaps).max() < 2500
        assert gaps.any()


def test_the_measurement_cannot_reach_the_counts_themselves() -> None:
    def spoil(counts: list[int]) -> list[int]:
        counts[0] = 0
        return counts

    gate, db = kernel()
    gate.foreign(made(spoil))
    assert db.rows.cells.marginal((0, 1)).reshape(-1).tolist() == COUNTS


def test_a_reopened_kernel_has_paid() -> None:
    gate, db = kernel()
    gate.foreign(laplace(4.0))
    with pytest.raises(tr.TreeringError):
        gate.foreign(made(lambda counts: counts[:5]))
    again = db.open_gate(gate.budget)
    assert again.spent == gate.spent == Fraction(3, 2)
    assert again.history == gate.history


def explode(counts: list[int]) -> Any:
    raise RuntimeError(f"the counts are {counts}")


GARBAGE: dict[str, Callable[[Any], Any]] = {
    "raises": explode,
    "text": str,
    "nothing": lambda _: None,
    "one number": sum,
    "too few": lambda counts: counts[1:],
    "too many": lambda counts: [*counts, 0],
    "nested": lambda counts: [counts],
    "texts": lambda counts: [str(count) for count in counts],
    "booleans": lambda counts: [count > 0 for count in counts],
    "infinite": lambda counts: [*counts[1:], float("inf")],
    "no number": lambda counts: [*counts[1:], float("nan")],
    "overflowing": lambda counts: [*counts[1:], 2**63 + 2**40],
    "a dict": lambda counts: dict(enumerate(counts)),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_paid_for_and_tells_nothing(name: str) -> None:
    gate, _ = kernel()
    with pytest.raises(tr.TreeringError) as caught:
        gate.foreign(made(GARBAGE[name]))
    assert str(caught.value) == str(failure(6))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert gate.spent == 1
    assert list(gate.history) == [ForeignReleased(len(ROWS), pure(Fraction(1)), ())]
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
    ours = [str(value) for frame in frames if "/treering/" in frame.filename for value in (frame.locals or {}).values()]
    assert len(ours) > 3
    assert not [text for text in ours if "31337" in text or "7919" in text]


@pytest.mark.parametrize("convert", [tuple, np.array, lambda counts: list(np.array(counts, dtype=np.float32))])
def test_numbers_come_in_any_sequence(convert: Callable[[list[int]], Any]) -> None:
    values = released(made(convert), COUNTS)
    assert values == tuple(COUNTS)
    assert {type(value) for value in values} <= {int, float}


@pytest.mark.parametrize("last", [2**63, -(2**63), 2.0**63, 0, -0.5])
def test_numbers_of_64_bits_come_out_and_larger_ones_do_not(last: float) -> None:
    assert _numbers([0, 1, last], 3) == (0, 1, last)
    beyond = 2**63 + 1 if isinstance(last, int) else 2.0**63 * (1 + 2.0**-52)
    for sign in (1, -1):
        assert _numbers([0, sign * beyond, last], 3) is None
