"""The names that the package offers: its own, found when they are first used."""

from __future__ import annotations

import runpy

import pytest

from treering import budget
from treering.budget import convert, cost, promise

NAMES = {
    **{name: getattr(promise, name) for name in ("Budget", "Filter", "Promise")},
    **{name: getattr(convert, name) for name in ("delta_of", "epsilon_of", "rho_of")},
    "Cost": cost.Cost,
}


def test_names_are_imported_when_they_are_first_used() -> None:
    assert budget.__file__ is not None
    fresh = runpy.run_path(budget.__file__, run_name="treering.budget")
    assert not NAMES.keys() & fresh.keys()
    assert fresh["__dir__"]() == sorted(NAMES)
    for name, found in NAMES.items():
        assert fresh["__getattr__"](name) is getattr(budget, name) is found
    with pytest.raises(AttributeError, match="no attribute 'Ledger'"):
        fresh["__getattr__"]("Ledger")
