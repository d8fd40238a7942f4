"""The numbers that this package names: precisions, and the sensitivities that proofs have found.

What is promised depends on them. Whoever changes one of them does it twice, here too, and on purpose.
"""

from __future__ import annotations

import math
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import pytest

from treering.budget.cost import FREE
from treering.budget.promise import Promise

NUMBERS: Final[dict[str, dict[str, Any]]] = {
    "convert": {"_MARGIN": 1 / (1 << 44), "_LARGEST_LOG_X": 690.0, "_TINY": 1e-100, "_HUGE": 1e100},
    "minimising": {
        "SUMMED": 4096,
        "_UP": 1 + 1 / (1 << 40),
        "BESIDE": Fraction(17, 24),
        "MOMENTS": Fraction(9, 2),
    },
    "promise": {"_DENOMINATOR_BITS": 512, "_GRID_BITS": 256},
    "rows": {
        "_NOTHING": Fraction(0),
        "_GRID": math.factorial(30) << 100,
        "_ROUNDING": 1 + Fraction(1, 1 << 200),
    },
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NUMBERS.items() for name in names])
def test_a_number_is_what_it_was(module: str, name: str) -> None:
    found, expected = getattr(import_module(f"treering.budget.{module}"), name), NUMBERS[module][name]
    assert type(found) is type(expected)
    assert found == expected


def test_what_a_promise_is_if_nothing_is_said() -> None:
    for promise in (Promise(1.0), Promise.of(1.0)):
        assert (promise.epsilon, promise.delta, promise.rows_per_person, promise.share) == (1, 0, 1, 1)
        assert promise.budget.kind == "pure"


def test_nothing_costs_nothing() -> None:
    assert (FREE.epsilon, FREE.rho) == (Fraction(0), Fraction(0))


def test_the_noise_beside_the_diagonal_is_a_little_more_than_one_over_root_two() -> None:
    beside = import_module("treering.budget.minimising").BESIDE
    assert 1 / math.sqrt(2) < beside < 1 / math.sqrt(2) * 1.002
