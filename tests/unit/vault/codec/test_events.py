"""Lines of the ledger: every event round and back, in readable, stable, compact words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering as tr
from support.event_lines import EARLIER, EITHER, JFK, LINES, SCHEMA, TENTH, THIRD
from support.event_strategies import events
from support.events import decode, encode, identical, reread
from support.schemas import schemas
from treering import gate
from treering.domain import loss
from treering.domain.loss import Loss
from treering.domain.problem import Perturbation, Problem
from treering.domain.query import Query
from treering.domain.workload import random_conjunctions
from treering.noise import Laplace
from treering.vault.codec.events import version_of

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


@pytest.mark.parametrize(("event", "line"), LINES + THIRD, ids=lambda each: type(each).__name__)
def test_the_words_of_all_formats_stay(event: gate.Event, line: str) -> None:
    """Ledgers outlive versions: a change of these lines needs another version of the format."""
    assert encode(event) == line
    reread([event], SCHEMA)


@pytest.mark.parametrize(("event", "line"), EARLIER, ids=lambda each: type(each).__name__)
def test_a_line_that_is_no_longer_written_is_still_read(event: gate.Event, line: str) -> None:
    """A condensed record of format 1 knows no charges by row, and so it has none."""
    assert identical(decode(line, SCHEMA), event)
    assert isinstance(event, gate.Condensed)
    assert (event.steps, event.next_segment, event.segments, event.marks) == (None, 0, (), ())


@pytest.mark.parametrize(("event", "line"), THIRD, ids=lambda each: type(each).__name__)
def test_lines_with_sums_are_of_version_3_and_no_others_are(event: gate.Event, line: str) -> None:
    for wrong in (line.replace('"v":3', '"v":2'), line.replace('"v":3', '"v":1')):
        with pytest.raises(tr.DamagedVault):
            decode(wrong, SCHEMA)
    start = line.index(',"sums":')
    without = line[:start] + line[line.index("}", start) + 1 :]
    nothing = line[:start] + ',"sums":null' + line[line.index("}", start) + 1 :]
    for wrong in (without, nothing, nothing.replace('"v":3', '"v":2')):
        with pytest.raises(tr.DamagedVault):
            decode(wrong, SCHEMA)
    if not isinstance(event, gate.Noted):
        assert decode(without.replace('"v":3', '"v":2'), SCHEMA)


def test_every_event_has_a_line_above() -> None:
    assert {type(event) for event, _ in LINES} == set(KINDS)


# -- compact -----------------------------------------------------------------------------------------------------------


def test_a_conjunction_takes_less_than_200_bytes() -> None:
    empty = len(encode(gate.Selected(9, TENTH, (), 0)))
    small = tr.Schema({name: tr.integers(1, 60) for name in ("origin", "destination", "carrier", "weekday")})
    for query in random_conjunctions(small, 200, np.random.default_rng(1)):
        assert len(encode(gate.Selected(9, TENTH, (query,), 0))) - empty < 200


def test_a_large_set_takes_a_bit_a_value() -> None:
    minutes = np.random.default_rng(1).integers(0, 2, 1440, dtype=np.bool_)
    line = encode(gate.Selected(9, TENTH, (Query.conjunction(SCHEMA, {3: minutes}),), 0))
    assert len(line) < 1440 / 8 * 4 / 3 + 150
    few = Query.where(SCHEMA, minute=[*range(0, 700, 100), 1439])
    assert '"minute":"0,100,200,300,400,500,600,1439"' in encode(gate.Selected(9, TENTH, (few,), 0))


def test_large_arrays_are_packed() -> None:
    counts = np.random.default_rng(1).normal(0, 100, 10_000).astype(np.int64)
    assert len(encode(gate.NodeReleased(9, 0, 0, 1, Laplace(2.0), counts))) < 4 * len(counts)
    assert len(encode(gate.NodeReleased(9, 0, 0, 1, Laplace(2.0), np.zeros(10_000, np.int64)))) < 1000


def test_a_query_that_comes_again_is_one_object() -> None:
    event = gate.Selected(9, TENTH, (JFK, EITHER, JFK, EITHER), 0)
    first, second = decode(encode(event), SCHEMA), decode(encode(event), SCHEMA)
    assert isinstance(first, gate.Selected)
    assert isinstance(second, gate.Selected)
    assert len({id(query) for query in first.queries + second.queries}) == 2


def test_numbers_of_numpy_are_written_as_python_has_them() -> None:
    nine: Any = np.int64(9)
    event = gate.LeafCut(nine, 0, 1)  # equal to, if not the same as, what is read
    assert decode(encode(event), SCHEMA) == event
    noise = gate.TreeStarted(9, TENTH, 0, Laplace(np.float64(2.5)))
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


@pytest.mark.parametrize(("version", "expected"), [(0, 2), (3, 2), (4, 4), (5, 2)])
def test_a_checkpoint_is_of_version_4_if_its_note_says_so(version: int, expected: int) -> None:
    """Earlier versions of treering must not take it for one that they could read."""
    note = type("Note", (), {"line_version": version})()
    assert version_of(gate.Condensed(9, Fraction(0), 0, (), note)) == expected
    assert version_of(gate.Condensed(9, Fraction(0), 0, (), None)) == 2
    assert version_of(gate.Noted(note)) == 1
