"""Rings in a checkpoint: one note stands for all their events, and what goes on from it is the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import cast

import pytest

import treering as tr
from support.databases import TestDatabase
from support.rings import KINDS, cells, database, rings
from support.row_lives import account
from treering.domain.language.measures import Count, Measure, Sum
from treering.gate import Condensed
from treering.mechanisms.rings import Rings
from treering.mechanisms.series.ring import KeptRings
from treering.trusted.kernel import Kernel

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "fare": tr.integers(0, 9)})


def lived(delta: float) -> tuple[TestDatabase, Rings]:
    """Series of several ages: one that is current, one that is not asked any more, one of sums."""
    db = database()
    mechanism = rings(db, delta)
    mechanism.ask_many([f"month = {month}" for month in range(1, 13)])
    for seed in range(20):
        db.append_cells(cells(30, seed))
        mechanism.ask("late = 'yes'")
    return db, mechanism


def paid_by_all(mechanism: Rings) -> list[Fraction]:
    """What each row has paid."""
    return account(cast(Kernel, mechanism._gate))


def note(db: TestDatabase) -> KeptRings:
    """What the journal holds: one event."""
    (event,) = db.journal.events()
    assert isinstance(event, Condensed)
    assert isinstance(event.note, KeptRings)
    return event.note


@KINDS
def test_what_goes_on_from_a_checkpoint_is_the_same(delta: float) -> None:
    db, mechanism = lived(delta)
    before, state, paid = mechanism.describe(), mechanism.state, paid_by_all(mechanism)
    mechanism.condense()
    note(db)
    assert mechanism.state == state
    again = rings(db, delta)
    assert (again.state, again.describe(), paid_by_all(again)) == (state, before, paid)
    assert again.boundaries == mechanism.boundaries
    for text in ("late = 'yes'", "late = 'no'"):
        for since in (None, *again.boundaries[-2:]):
            assert again.ask(text, since=since) == mechanism.ask(text, since=since)


@KINDS
def test_series_grow_and_begin_after_a_checkpoint(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the end of the segment that was open, and with another series: as a kernel from the journal has it."""
    monkeypatch.setattr("treering.theory.series.LONGEST", 24)
    db, mechanism = lived(delta)
    mechanism.condense()
    for seed in range(10):
        db.append_cells(cells(30, seed))
        answer = mechanism.ask("late = 'yes'")
        again = rings(db, delta)
        assert again.state == mechanism.state
        assert again.ask("late = 'yes'") == answer
        if seed == 5:
            mechanism.condense()
    mechanism.ask("late = 'yes' AND month = 1")
    again = rings(db, delta)
    assert again.state == mechanism.state
    assert len(again.series) == 3
    assert paid_by_all(again) == paid_by_all(mechanism)


@KINDS
def test_the_large_arrays_go_apart_and_come_back(delta: float) -> None:
    db, mechanism = lived(delta)
    mechanism.condense()
    whole = note(db)
    light, arrays = whole.unloaded()
    assert len(arrays) == (2 if delta else 0)  # Trees have few numbers: they stay.
    again = light.loaded(arrays)
    (event,) = db.journal.events()
    assert isinstance(event, Condensed)
    db.journal.write(replace(event, note=again))
    assert note(db) is again
    assert rings(db, delta).state == mechanism.state


def test_a_checkpoint_is_due_when_there_is_a_quarter_more() -> None:
    db = database()
    mechanism = rings(db)
    assert mechanism.backlog is None
    mechanism.ask("late = 'yes'")
    assert mechanism.backlog == 0
    for seed in range(16):
        db.append_cells(cells(5, seed))
        mechanism.ask("late = 'yes'")
    mechanism.condense()
    due: list[int | None] = []
    for seed in range(5):
        due.append(mechanism.backlog)
        assert rings(db).backlog == mechanism.backlog
        db.append_cells(cells(5, seed))
        mechanism.ask("late = 'yes'")
    assert due == [None, None, None, None, 0]


def test_a_quarter_is_a_quarter() -> None:
    """Of what the last checkpoint holds, made since in all series together."""
    mechanism = rings(database(5000))
    mechanism.ask("late = 'yes'")
    mechanism.ask("month = 3")
    one, other = mechanism._shelf.rings
    mechanism._shelf._condensed, one.series.fresh = 1000, 100
    for fresh, due in ((149, None), (150, 0), (151, 0)):
        other.series.fresh = fresh
        assert mechanism.backlog == due


def test_sums_are_in_it_too() -> None:
    db = TestDatabase(SCHEMA, [each % SCHEMA.cells for each in range(5000)])
    mechanism = Rings(db, 5.0, 1e-6)
    measures: dict[str, Measure] = {"total": Sum("fare"), "rows": Count()}
    for size in range(5):
        db.append_cells([size])
        told = mechanism.table(["late"], measures=measures)
    mechanism.condense()
    assert len(note(db).rings) == 1
    again = Rings(db, 5.0, 1e-6)
    assert again.state == mechanism.state
    assert again.table(["late"], measures=measures) == told


def test_the_state_of_another_kind_of_series_is_refused() -> None:
    (_, pure), (_, approximate) = lived(0.0), lived(1e-6)
    tree, roots = pure._shelf.rings[0], approximate._shelf.rings[0]
    for ring, state in ((tree, roots.keep().state), (roots, tree.keep().state)):
        with pytest.raises(tr.DamagedVault, match="the state of another kind of series: delete the checkpoints"):
            ring.restore(state, [])


@KINDS
def test_a_checkpoint_comes_due_again_whatever_is_kept(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees keep few numbers, and a segment that is over keeps fewer: what counts is what was released since."""
    monkeypatch.setattr("treering.theory.series.LONGEST", 8)
    db = database()
    mechanism = rings(db, delta)
    made = 0
    for seed in range(60):
        db.append_cells(cells(5, seed))
        mechanism.ask("late = 'yes'")
        if mechanism.backlog is not None:
            mechanism.condense()
            made += 1
            assert rings(db, delta).backlog == mechanism.backlog
    assert made >= 20
