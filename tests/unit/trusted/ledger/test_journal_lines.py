"""A journal by itself: which lines each event becomes, what is leased, and what the next session makes of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import treering as tr
from support.journals import NUMBER, Session, condensed, started
from treering.gate import Compared, Crossing, Noted, RunEnded
from treering.trusted.journal import Secret
from treering.trusted.ledger.journal import FIRST_LEASE, secret_name, without_collections
from treering.trusted.ledger.lines import Line, SecretValue, body


def easy(asked: int, run: int = 1, size: int = 10) -> Compared:
    return Compared(size, run, asked, None)


def hard(asked: int = 1, run: int = 1, size: int = 10) -> Compared:
    return Compared(size, run, asked, Crossing(0, None))


def lease(asked: int, run: int = 1, size: int = 10) -> tuple[str, dict[str, int]]:
    return "lease", {"size": size, "run": run, "asked": asked}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    made.journal.begin(started(1), Secret(7))
    yield made
    made.ledger.close()


# -- leases ------------------------------------------------------------------------------------------------------------


def test_easy_comparisons_are_leased_before_they_leave(session: Session) -> None:
    """In each moment, those that left are no more than those on record."""
    assert FIRST_LEASE == 1024
    expected: list[object] = [started(1), lease(1024)]
    for asked, then in ((1, None), (1023, None), (1, 2050), (1025, None), (1, 4102)):
        session.journal.write(easy(asked))
        expected += [] if then is None else [lease(then)]
        assert session.lines() == expected
    assert session.journal.events() == (started(1), easy(1 + 1023 + 1 + 1025 + 1))


def test_a_large_batch_has_a_lease_of_twice_its_size(session: Session) -> None:
    session.journal.write(easy(600))
    assert session.lines(1) == [lease(1200)]


def test_what_is_pending_is_recorded_exactly_once(session: Session) -> None:
    session.journal.settle()
    session.journal.settle(renew=True)
    assert session.lines(1) == []
    session.journal.write(easy(5))
    session.journal.settle()
    session.journal.settle()
    assert session.lines(2) == [easy(5)]
    session.journal.write(easy(2))  # That was in place of the lease: there is another now.
    assert session.lines(3) == [lease(1024)]
    session.journal.settle(renew=True)
    assert session.lines(4) == [easy(2), lease(1024)]
    session.journal.write(easy(3))  # Within the lease that was renewed.
    assert session.lines(6) == []
    assert session.journal.events() == (started(1), easy(10))


@pytest.mark.parametrize("other", [easy(4, run=2), easy(4, size=11)])
def test_another_run_or_size_is_counted_apart(session: Session, other: Compared) -> None:
    session.journal.begin(started(2), Secret(8))
    session.journal.write(easy(5))
    session.journal.write(other)
    assert session.lines(3) == [easy(5), lease(1024, other.run, other.size)]
    session.journal.settle()
    assert session.lines(5) == [other]


def test_an_event_comes_after_what_was_pending(session: Session) -> None:
    session.journal.write(easy(5))
    session.journal.write(Noted("step"))
    assert session.lines(2) == [easy(5), Noted("step")]
    session.journal.write(Noted("next"))
    assert session.lines(4) == [Noted("next")]


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_run_has_a_secret_until_it_ends(session: Session) -> None:
    name = secret_name(NUMBER, 1)
    assert name == "run 2.1"
    assert list(session.ledger.secrets()) == [name]
    assert (session.ledger.secrets()[name].value, session.journal.secret(1).value) == ("7", 7)
    session.journal.write(easy(5))
    session.journal.begin(started(3), Secret(-9))
    assert session.lines(2) == [easy(5), started(3)]
    session.journal.write(easy(2, run=3))
    session.journal.write(hard(run=3))
    assert session.lines(4) == [lease(1024, run=3), easy(2, run=3), hard(run=3)]
    assert list(session.ledger.secrets()) == [name]
    with pytest.raises(KeyError):
        session.journal.secret(3)
    session.journal.write(RunEnded(10, 1, Fraction(1, 4)))
    assert len(session.ledger.secrets()) == 0
    assert not session.journal._leases


def test_the_end_of_a_run_is_one_commit_with_what_was_pending(session: Session) -> None:
    session.journal.write(easy(5))
    with session.journal.transaction():
        session.journal.write(hard())
        assert session.ledger.waiting == 2
        assert session.lines(2) == []
    assert session.lines(2) == [easy(5), hard()]


def test_memory_is_ahead_of_the_record_until_the_end_is_written(session: Session) -> None:
    assert not session.ledger.ahead
    session.journal.ending(1)
    assert session.ledger.ahead
    session.journal.write(hard())
    assert not session.ledger.ahead


def test_closing_records_what_is_pending_and_returns_leases(session: Session) -> None:
    session.journal.begin(started(2), Secret(8))
    session.journal.write(easy(5))
    session.journal.settle(renew=True)
    session.journal.write(easy(2, run=2))
    before = session.ledger.seq
    session.journal.close()
    assert session.lines(before) == [easy(2, run=2), lease(0, size=0)]
    session.journal.close()
    assert session.ledger.seq == before + 2
    again = session.again()
    assert again.lines(before + 2) == []
    assert [again.journal.secret(run).value for run in (1, 2)] == [7, 8]
    again.ledger.close()


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_comes_after_what_was_pending_and_ends_all_leases(session: Session) -> None:
    session.journal.write(easy(5))
    session.ledger.ahead = True
    session.journal.write(condensed(started(1)))
    assert not session.ledger.ahead
    one, (kind, plain) = session.lines(2)
    assert (one, kind, plain["file"], plain["size"]) == (easy(5), "checkpoint", "00000001", 10)
    assert session.journal.events() == (condensed(started(1)),)
    session.journal.write(easy(3))
    assert session.lines(4) == [lease(1024)]
    # Also a lease that nothing was asked under: recovery reads no line before the checkpoint.
    session.journal.settle(renew=True)
    before = session.ledger.seq
    session.journal.write(condensed(started(1)))
    session.journal.write(easy(1))
    assert session.lines(before + 1) == [lease(1024)]


def test_fresh_is_the_number_of_events_since_the_checkpoint(tmp_path: Path) -> None:
    session = Session(tmp_path)
    assert session.journal.fresh == 0
    for number in range(1, 4):
        session.journal.write(Noted(f"step {number}"))
        assert session.journal.fresh == number
    session.journal.write(condensed())
    assert session.journal.fresh == 0
    session.journal.write(Noted("step"))
    assert session.journal.fresh == 1
    session.ledger.close()


def test_replay_begins_with_the_last_checkpoint_that_can_be_read(session: Session) -> None:
    first, second = condensed(started(1), word="first"), condensed(started(1), word="second")
    steps = [Noted(f"step {number}") for number in range(1, 4)]
    for event in (steps[0], first, steps[1], second, steps[2]):
        session.journal.write(event)
    assert session.recovered().events == (second, steps[2])
    assert session.recovered(checkpoints=False).events == (started(1), *steps)
    (session.place / "00000002").unlink()
    assert session.recovered().events == (first, *steps[1:])
    (session.place / "00000001").unlink()
    assert session.recovered().events == (started(1), *steps)


def test_a_checkpoint_that_is_the_first_line_of_all_is_found(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.journal.write(condensed())
    assert session.recovered().events == (condensed(),)
    session.ledger.close()


# -- the next session --------------------------------------------------------------------------------------------------


def test_a_lease_that_was_not_returned_counts_and_ends_its_run(session: Session) -> None:
    session.journal.begin(started(2), Secret(-8))
    session.journal.write(easy(5))
    found = session.recovered()
    assert found.events == (started(1), started(2))
    assert found.lost == (easy(1024),)
    assert set(found.commitments) == {"run 2.1", "run 2.2"}
    before = session.ledger.seq
    again = session.again(size=15)
    ended = RunEnded(15, 1, Fraction(0))
    assert again.lines(before) == [easy(1024), ended]
    assert again.journal.events() == (started(1), started(2), easy(1024), ended)
    assert list(again.ledger.secrets()) == ["run 2.2"]
    assert again.journal.secret(2).value == -8
    assert again.recovered().lost == ()
    again.ledger.close()


def test_a_lease_of_no_comparisons_or_of_a_run_that_is_over_does_not_count(session: Session) -> None:
    session.journal.begin(started(2), Secret(8))
    for kind, plain in (lease(0, run=1), lease(50, run=2)):
        session.ledger.write(Line(kind, body(**plain), NUMBER))
    assert session.recovered().lost == (easy(50, run=2),)
    session.journal.write(RunEnded(10, 2, Fraction(0)))
    assert session.recovered().lost == ()


def test_comparisons_on_record_are_in_place_of_the_lease_of_their_run(session: Session) -> None:
    session.journal.begin(started(2), Secret(8))
    for kind, plain in (lease(40, run=1), lease(50, run=2)):
        session.ledger.write(Line(kind, body(**plain), NUMBER))
    session.journal.write(Compared(10, 2, 3, Crossing(1, None)))
    assert session.recovered().lost == (easy(40),)
    # A checkpoint has all up to then on record, also if it cannot be read any more.
    session.journal.write(condensed(started(1)))
    assert session.recovered().lost == ()
    (session.place / "00000001").unlink()
    assert session.recovered().lost == ()


def test_a_run_in_a_checkpoint_has_its_secret_again(session: Session) -> None:
    session.journal.write(condensed(started(1)))
    again = session.again()
    assert again.journal.events() == (condensed(started(1)),)
    assert again.journal.secret(1).value == 7
    again.ledger.close()


def test_a_secret_that_is_not_the_one_promised_is_refused(session: Session) -> None:
    found = session.recovered()
    for given in ({}, {"run 2.1": SecretValue("run 2.1", bytes(32), "7")}):
        with pytest.raises(tr.DamagedVault, match=r"the secret 'run 2\.1' is missing, or not the one"):
            session.journal.take_up(found, given, 10)
    session.journal.take_up(found, session.ledger.secrets(), 10)


# -- garbage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_are_put_off_and_then_as_they_were(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with without_collections():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ZeroDivisionError), without_collections():
            raise ZeroDivisionError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
