"""Lines of the ledger: every event round and back, in readable, stable, compact words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.event_lines import EITHER, JFK, LINES, SCHEMA, TENTH, WITH_SUMS
from support.event_strategies import events
from support.events import decode, encode, reread
from support.schemas import schemas
from treering import gate
from treering.domain import loss
from treering.domain.loss import Loss
from treering.domain.problem import Perturbation, Problem
from treering.domain.query import Query
from treering.domain.workload import random_conjunctions
from treering.noise import Laplace

KINDS: tuple[type[Any], ...] = get_args(gate.Event)


# -- round and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_an_event_is_read_as_it_was_written(kind: type[Any], data: st.DataObject) -> None:
    schema = data.draw(schemas(most_attributes=3, most_values=4))
    event = data.draw(events(schema)[kind])
    reread([event], schema)
    assert encode(event) == encode(event)
    assert encode(event).isascii()


@pytest.mark.parametrize(("event", "line"), LINES + WITH_SUMS, ids=lambda each: type(each).__name__)
def test_the_words_of_the_format_stay(event: gate.Event, line: str) -> None:
    """A change of these lines needs another format."""
    assert encode(event) == line
    reread([event], SCHEMA)


def test_every_event_has_a_line_above() -> None:
    assert {type(event) for event, _ in LINES} == set(KINDS)


# -- compact -----------------------------------------------------------------------------------------------------------


def test_a_condition_takes_some_bytes_a_cut() -> None:
    empty = len(encode(gate.Selected(9, TENTH, (), 0)))
    small = tr.Schema({name: tr.integers(1, 60) for name in ("origin", "destination", "carrier", "weekday")})
    for query in random_conjunctions(small, 200, np.random.default_rng(1)):
        cuts = sum(int(np.count_nonzero(np.diff(mask))) for mask in query.masks or ())
        assert len(encode(gate.Selected(9, TENTH, (query,), 0))) - empty < 5 * cuts + 250
    minutes = np.random.default_rng(1).integers(0, 2, 1440, dtype=np.bool_)
    line = encode(gate.Selected(9, TENTH, (Query.conjunction(SCHEMA, {3: minutes}),), 0))
    assert len(line) < 3 * np.count_nonzero(np.diff(minutes)) + 300


def test_large_arrays_are_packed() -> None:
    counts = np.random.default_rng(1).normal(0, 100, 10_000).astype(np.int64)
    assert len(encode(gate.HistogramReleased(9, TENTH, (0,), Laplace(2.0), counts))) < 4 * len(counts)
    assert len(encode(gate.HistogramReleased(9, TENTH, (0,), Laplace(2.0), np.zeros(10_000, np.int64)))) < 1000


def test_a_query_that_comes_again_is_one_object() -> None:
    event = gate.Selected(9, TENTH, (JFK, EITHER, JFK, EITHER), 0)
    first, second = decode(encode(event), SCHEMA), decode(encode(event), SCHEMA)
    assert isinstance(first, gate.Selected)
    assert isinstance(second, gate.Selected)
    assert len({id(query) for query in first.queries + second.queries}) == 2


def test_numbers_of_numpy_are_written_as_python_has_them() -> None:
    nine: Any = np.int64(9)
    event = gate.Compared(nine, 0, 1, None)  # equal to, if not the same as, what is read
    assert decode(encode(event), SCHEMA) == event
    noise = gate.Measured(9, TENTH, (), Laplace(np.float64(2.5)), ())
    assert decode(encode(noise), SCHEMA) == noise


def test_the_losses_of_the_package_can_be_kept() -> None:
    """Somebody's own cannot."""
    kinds = [each for each in vars(loss).values() if isinstance(each, type) and issubclass(each, Loss) and each != Loss]
    assert len(kinds) >= 4
    for kind in kinds:
        reread([gate.Minimised(9, TENTH, Problem(kind(), 2), Perturbation("laplace", 1.0, 0.5, 3), ())], SCHEMA)


def test_integers_have_no_limit() -> None:
    """Python's decimal text has one, of 4300 digits."""
    event = gate.Compared(9, 0, 2**100_000, gate.Crossing(0, -(3**50_000)))
    reread([event, gate.Noted(7**9999), gate.RunEnded(9, 0, Fraction(2**20_000, 3**9999))], SCHEMA)
