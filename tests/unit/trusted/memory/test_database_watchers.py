"""Who is told when a database has grown, and for how long."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import treering as tr
from support.databases import TestDatabase
from treering.trusted.memory.watchers import Watchers

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})


class Watcher:
    """Writes down the sizes it was told about."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.seen: list[int] = []
        db.watch(self.grown)

    def grown(self) -> None:
        self.seen.append(self.db.size)


@pytest.mark.parametrize("make", [tr.GrowingDatabase, TestDatabase])
def test_every_append_tells_after_the_rows_are_in(make: Any) -> None:
    db = make(SCHEMA)
    watcher = Watcher(db)
    db.append_cells([0, 1, 1])
    db.append_cells([0])
    assert watcher.seen == [3, 4]


def test_rows_and_cells_alike() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    watcher = Watcher(db)
    db.append([{"late": "yes"}])
    db.append_cells([0])
    with pytest.warns(tr.DroppedRows):
        db.append([{"late": "yes"}, {"late": "perhaps"}], on_invalid="drop")
    assert watcher.seen == [1, 2, 3]


def test_a_refused_batch_tells_nobody() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    watcher = Watcher(db)
    with pytest.raises(tr.DataError):
        db.append([{"late": "perhaps"}])
    with pytest.raises(tr.DataError):
        db.append_cells([7])
    assert watcher.seen == []


def test_all_watchers_are_told_in_their_order() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    order: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def grown(self) -> None:
            order.append(self.name)

    watchers = [Named(name) for name in "abc"]
    for watcher in watchers:
        db.watch(watcher.grown)
    db.append_cells([0])
    assert order == ["a", "b", "c"]


def test_watching_keeps_nothing_alive_and_the_dead_are_forgotten() -> None:
    watchers = Watchers()

    class Counter:
        calls = 0

        def grown(self) -> None:
            Counter.calls += 1

    kept, dropped = Counter(), Counter()
    watchers.add(kept.grown)
    watchers.add(dropped.grown)
    watchers.call()
    assert Counter.calls == 2
    ghost = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert ghost() is None
    watchers.call()
    assert Counter.calls == 3
    assert len(watchers._methods) == 1


def test_one_that_comes_while_others_are_told_is_told_the_next_time() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    late: list[Watcher] = []

    class Inviting:
        def grown(self) -> None:
            if not late:
                late.append(Watcher(db))

    inviting = Inviting()
    db.watch(inviting.grown)
    db.append_cells([0])
    assert late[0].seen == []
    db.append_cells([0])
    assert late[0].seen == [2]


@pytest.mark.parametrize("grown", [lambda: None, print, None, "grown", Watcher.grown])
def test_only_methods_of_objects_can_watch(grown: Any) -> None:
    """A function would be forgotten at once, for nothing else holds it."""
    for watching in (Watchers().add, tr.GrowingDatabase(SCHEMA).watch):
        with pytest.raises(tr.ParameterError, match="method of an object"):
            watching(grown)


def test_the_one_who_is_told_may_work_in_a_gate_of_the_same_database() -> None:
    """Watchers are called outside of the append's own lock, and in the thread that appended."""
    db = tr.GrowingDatabase(SCHEMA)
    gate = db.open_gate(tr.Promise(1.0).budget)
    threads: list[threading.Thread] = []

    class Working:
        def grown(self) -> None:
            threads.append(threading.current_thread())
            with gate.transaction():
                gate.note(db.size)

    working = Working()
    db.watch(working.grown)
    other = threading.Thread(target=db.append_cells, args=([0, 1],))
    other.start()
    other.join(timeout=10)
    assert threads == [other]
    assert len(gate.history) == 1
