"""The numbers that this package names: precisions, and the sensitivities that proofs have found.

What is promised depends on them. Whoever changes one of them does it twice, here too, and on purpose.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import ModuleType
from typing import Any, Final

import pytest

from treering.budget import convert, minimising, promise, rows
from treering.budget.cost import FREE
from treering.budget.promise import Promise

NUMBERS: Final[dict[ModuleType, dict[str, Any]]] = {
    convert: {"MARGIN": 1 / (1 << 44), "_LARGEST_LOG_X": 690.0, "_TINY": 1e-100, "HUGE": 1e100},
    minimising: {
        "SUMMED": 4096,
        "_UP": 1 + 1 / (1 << 40),
        "BESIDE": Fraction(17, 24),
        "MOMENTS": Fraction(9, 2),
    },
    promise: {"_DENOMINATOR_BITS": 512, "_GRID_BITS": 256},
    rows: {
        "_NOTHING": Fraction(0),
        "_GRID": math.factorial(30) << 100,
        "_ROUNDING": 1 + Fraction(1, 1 << 200),
    },
}


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [(module, name, number) for module, names in NUMBERS.items() for name, number in names.items()],
)
def test_a_number_is_what_it_was(module: ModuleType, name: str, expected: Any) -> None:
    found = getattr(module, name)
    assert type(found) is type(expected)
    assert found == expected


def test_what_a_promise_is_if_nothing_is_said() -> None:
    for made in (Promise(1.0), Promise.of(1.0)):
        assert (made.epsilon, made.delta, made.rows_per_person, made.share) == (1, 0, 1, 1)
        assert made.budget.kind == "pure"


def test_nothing_costs_nothing() -> None:
    assert (FREE.epsilon, FREE.rho) == (Fraction(0), Fraction(0))


def test_the_noise_beside_the_diagonal_is_a_little_more_than_one_over_root_two() -> None:
    assert 1 / math.sqrt(2) < minimising.BESIDE < 1 / math.sqrt(2) * 1.002
