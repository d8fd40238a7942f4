"""The numbers that this package names: defaults, limits, precisions, and sizes that were measured to be fast.

What is promised depends on them, and what people get who say nothing. Whoever changes one of them does it twice, here
too, and on purpose.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any, Final

import pytest

import treering as tr
from treering.mechanisms.base import Mechanism
from treering.mechanisms.paper import Paper, PaperParameters, PaperState
from treering.mechanisms.series.leaves import LeafSeries
from treering.mechanisms.series.tree import TreeEstimate, TreeSeries
from treering.mechanisms.sparse import ATG, SparseState
from treering.mechanisms.state import TightState
from treering.mechanisms.tight import Tight

NUMBERS: Final[dict[str, dict[str, Any]]] = {
    "continual": {"MAX_CELLS": 4_194_304},
    "histogram.blocks": {
        "ROW": 256,
        "_LONG_ROW": 4096,
        "_LONG_RUN": 16,
        "_FEW": 64,
        "_CONSTANT": 64,
        "_LINE": 64,
        "MARGINAL_CELLS": 4_194_304,
        "CACHED_CELLS": 33_554_432,
    },
    "histogram.hypothesis": {
        "MAX_CELLS": 67_108_864,
        "REFRESH": 1000,
        "LEAST_WEIGHT": 1e-100,
        "_MODERATE_RATIO": 1e20,
        "_MODERATE_TOTAL": 1e30,
        "_SLICE": 1_048_576,
    },
    "histogram.kernels": {"FLOOR": 1e-250, "_SHORT_RUN": 8, "_CHUNK": 4096},
    "histogram.step": {"_ROUNDS": 200, "_CLOSE": 1e-14},
    "paper": {"_MANY": 1_000_000_000_000_000, "_BLOCK": 256},
    "pmwg": {"WARM_UNIFORM": 0.1},
    "rings": {"MOST_ROWS_OF_A_TABLE": 65_536},
    "series.policy": {"MANY": 100},
    "series.ring": {"UNFIT": 4, "_REMEMBERED": 268_435_456},
    "series.tree": {"_FEW_NODES": 16},
    "series.view": {"ROUNDING": 1 + 1 / (1 << 20), "_SHARE_ROUNDING": 1 / (1 << 30)},
    "state": {"MOST_RECORDS": 100_000},
    "tight": {
        "FORGETTING": 0.125,
        "BOLDNESS": 1.5,
        "_MOST_PATIENCE": 64,
        "_MOST_ROWS": 1 << 50,
        "_FAR": 0.99,
        "_FIRST_BLOCK": 256,
        "_LARGEST_BLOCK": 8192,
        "_GROWTH": 8,
        "_LEAST_SCALE": 1e-6,
    },
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NUMBERS.items() for name in names])
def test_a_number_is_what_it_was(module: str, name: str) -> None:
    found, expected = getattr(import_module(f"treering.mechanisms.{module}"), name), NUMBERS[module][name]
    assert type(found) is type(expected)
    assert found == expected


DEFAULTS: Final[list[tuple[Any, dict[str, Any]]]] = [
    (
        tr.PMWG,
        {"delta": 0.0, "profile": "tight", "measure_first": True, "p": 0.5, "warm_start": None, "kappa": None},
    ),
    (tr.Rings, {"delta": 0.0, "beta": 0.05, "pace": 25}),
    (tr.ContinualHistogram, {"delta": 0.0, "beta": 0.05, "windows": False}),
    (tr.ContinualHistogram.counts, {"since": 0}),
    (ATG, {"queries": 1000, "beta": 0.05, "xi": None, "sensitivity": None}),
    (tr.Rings.quantile, {"level": 0.5, "where": None, "within": None}),
    (LeafSeries, {"start": 0, "number": 0, "sums": None}),
    (TreeSeries, {"start": 0, "number": 0, "sums": None}),
    (TreeEstimate, {"start": 0}),
    (Tight._due, {"more": 0}),
    (Tight._run, {"more": 0}),
]


@pytest.mark.parametrize(("function", "defaults"), DEFAULTS)
def test_what_there_is_if_nothing_is_said(function: Any, defaults: dict[str, Any]) -> None:
    parameters = signature(function).parameters.items()
    found = {name: each.default for name, each in parameters if each.default is not each.empty}
    assert found == defaults
    assert [type(value) for value in found.values()] == [type(defaults[name]) for name in found]


def test_states_begin_with_nothing_asked() -> None:
    assert TightState(2.0) == TightState(2.0, 0, 0, 0, 0, None, 0.0, 0, 1, 0)
    assert PaperState() == PaperState(0, 0, 0, 0, 0, None, False, False)
    assert PaperParameters(1.0, 0.0, 0.1, 0.05, 0.5).kappa == 1.0
    assert SparseState() == SparseState(0, 0, None)


def test_what_mechanisms_are() -> None:
    assert Mechanism.answers is True
    assert Tight.over is False
    assert callable(Paper)
