from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from treering.errors import GuaranteeError, ParameterError
from treering.theory import schedule

PROMISE = 1.0, 1e-9, 0.05


@pytest.mark.parametrize(("p", "g"), [(1.0, 1.0), (0.5, 2.0), (1 / 3, 5.0)])
@pytest.mark.parametrize("c", [0.01, 0.1])
def test_it_is_the_first_size_of_the_last_stretch_below(p: float, g: float, c: float) -> None:
    start = 10**6
    size = schedule.overtaking(start, *PROMISE, p, g, c)
    fixed = schedule.fixed(start, *PROMISE, p, g, "paper").alpha
    improving = schedule.improving(start, *PROMISE, p, p, 0, g, c, "paper")
    assert size > start
    assert improving.alpha_at(size) <= fixed < improving.alpha_at(size - 1)
    assert all(improving.alpha_at(size * 2**power) < fixed for power in range(1, 20))


def test_an_improver_that_is_ahead_from_the_start() -> None:
    """With p = 6 the fixed error is nearly all staleness: the improving one is smaller from the first size on."""
    assert schedule.overtaking(10**12, *PROMISE, 6.0, 1.0, 0.1) == 10**12


@pytest.mark.parametrize(("p", "c"), [(0.5, 0.01), (1 / 3, 0.05)])
def test_the_exponent_is_reached_up_to_logarithms(p: float, c: float) -> None:
    """Below 2, as the paper says, for small c; the fitted one exceeds the bare one by what the logarithms add."""
    starts = [10**8, 10**10, 10**12]
    sizes = [math.log(schedule.overtaking(start, *PROMISE, p, 1.0, c)) for start in starts]
    fitted = [(later - earlier) / math.log(100) for earlier, later in pairwise(sizes)]
    bare = schedule.overtaking_exponent(p, c)
    assert bare < 2
    assert all(bare < each < bare + 0.35 for each in fitted)
    assert fitted[1] < fitted[0]


def test_no_c_from_a_half_on() -> None:
    assert schedule.overtaking_exponent(1, 0.5) == math.inf
    with pytest.raises(GuaranteeError, match="c must be below 1/2"):
        schedule.overtaking(10**6, *PROMISE, 1.0, 1.0, 0.5)


@pytest.mark.parametrize(("name", "value"), [("start", 0), ("epsilon", -1), ("beta", 2), ("p", 0), ("g", 0), ("c", 0)])
def test_bad_parameters_are_named(name: str, value: Any) -> None:
    right: dict[str, Any] = {"start": 10**6, "epsilon": 1.0, "delta": 1e-9, "beta": 0.05, "p": 1.0, "g": 1.0, "c": 0.1}
    with pytest.raises(ParameterError, match=name):
        schedule.overtaking(**(right | {name: value}))
