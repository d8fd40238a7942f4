"""The numbers that this package names: defaults and limits.

What people get who say nothing depends on them. Whoever changes one of them does it twice, here too, and on purpose.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from itertools import pairwise
from typing import Any, Final

import pytest

import treering as tr
from treering.domain.loss import Distance, HuberDistance, Squared
from treering.schedulers.epochs import Present
from treering.schedulers.learning import Learner

NUMBERS: Final[dict[str, dict[str, Any]]] = {
    "epochs": {"MOST_WORDS": 500},
    "ermrings": {
        "RADIUS": 16.0,
        "RADII": {Squared: 4.0, Distance: 1.0, HuberDistance: 1.0},
        "MOST_HELD": 10_000,
    },
    "improver": {"PAPER_C": 0.05},
    "tested": {"BINS": 8, "CLEAR": 4.0, "FEW": 0.005, "_BLOCK": 65_536},
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NUMBERS.items() for name in names])
def test_a_number_is_what_it_was(module: str, name: str) -> None:
    found, expected = getattr(import_module(f"treering.schedulers.{module}"), name), NUMBERS[module][name]
    assert type(found) is type(expected)
    assert found == expected


DEFAULTS: Final[list[tuple[Any, dict[str, Any]]]] = [
    (tr.ERMG, {"beta": 0.05, "profile": "tight", "radius": 1.0, "regularisation": 0.0, "method": "auto"}),
    (tr.ERMRings, {"delta": 0.0, "beta": 0.05, "every": 2.0, "radius": None, "regularisation": 0.0, "validation": 0}),
    (tr.BBScheduler, {"delta": 0.0, "beta": 0.05, "profile": "tight"}),
    (tr.SmallDBG, {"delta": 0.0, "beta": 0.05, "profile": "tight"}),
    (tr.BBImprover, {"beta": 0.05, "profile": "tight", "c": None}),
]


@pytest.mark.parametrize(("function", "defaults"), DEFAULTS)
def test_what_there_is_if_nothing_is_said(function: Any, defaults: dict[str, Any]) -> None:
    parameters = signature(function).parameters
    found = {name: parameters[name].default for name in defaults}
    assert found == defaults
    assert [type(value) for value in found.values()] == [type(value) for value in defaults.values()]


def test_nothing_is_present_at_first_and_learners_answer_no_queries() -> None:
    assert Present() == Present(0, 0, None, None)
    assert Learner.answers is False


def test_errors_of_points_of_the_unit_ball_are_told_apart_from_a_small_one_to_the_largest() -> None:
    cuts = import_module("treering.schedulers.tested").CUTS
    assert (cuts[0], cuts[-1], len(cuts)) == (2.0**-12, 2.0, 53)
    assert [high / low for low, high in pairwise(cuts)] == pytest.approx([2**0.25] * 52)
