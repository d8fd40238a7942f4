"""How a vault begins: its first mechanism, from checked parameters, before anything is written."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import treering as tr
from treering.budget.promise import Promise
from treering.trusted.store import originate
from treering.vault.beginning import first_spec

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 3)})


@pytest.mark.parametrize(
    ("kind", "alpha", "chosen", "options"),
    [
        ("auto", None, "rings", {"beta": 0.25}),
        ("pmwg", None, "pmwg", {"beta": 0.25, "alpha": 0.05}),
        ("pmwg", 0.125, "pmwg", {"beta": 0.25, "alpha": 0.125}),
        ("rings", 0.125, "rings", {"beta": 0.25}),
        ("auto", 0.5, "continual", {"beta": 0.25}),
        ("auto", 1e-9, "pmwg", {"beta": 0.25, "alpha": 1e-9}),
    ],
)
def test_the_first_mechanism(kind: str, alpha: float | None, chosen: str, options: dict[str, float]) -> None:
    origin = originate(SCHEMA, Promise(1.0, 1e-6), None, None, "id")
    first = first_spec(origin, kind, 0.5, alpha, 0.25, 10**6, {})
    assert (first.name, first.kind, first.share, first.options) == (chosen, chosen, Fraction(1, 2), options)
    for wrong in (0, 1.5, math.nan):
        with pytest.raises(tr.ParameterError):
            first_spec(origin, kind, 0.5, wrong, 0.25, 10**6, {})
        with pytest.raises(tr.ParameterError):
            first_spec(origin, kind, 0.5, alpha, wrong, 10**6, {})
    if kind == "auto":
        with pytest.raises(tr.ParameterError, match="rows"):
            first_spec(origin, kind, 0.5, alpha, 0.25, 0, {})


def test_options_given_by_name_come_before_the_usual_ones() -> None:
    origin = originate(SCHEMA, Promise(1.0, 1e-6), None, None, "id")
    first = first_spec(origin, "rings", 1.0, None, 0.25, 10, {"pace": 8, "beta": 0.125, "name": "mine"})
    assert (first.name, first.options) == ("mine", {"beta": 0.125, "pace": 8})
