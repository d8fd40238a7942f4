"""Which of several mechanisms is chosen, told from what each says of itself: fakes that say whatever is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

import treering as tr
from support.vaults import SCHEMA, crash, frame, mechanism
from treering.answer import Answer
from treering.gate import Compared, Noted
from treering.mechanisms.base import Answering
from treering.mechanisms.rings import Rings
from treering.trusted.ledger.journal import LedgerJournal, Recovered
from treering.trusted.ledger.lines import SecretValue
from treering.trusted.ledger.shares import Spec
from treering.vault import members
from treering.vault.members import (
    Member,
    Shown,
    _rank,
    chosen,
    fitting,
    keeps_sums,
    measuring,
    shown,
    telling,
)
from treering.vault.vault import Vault

ONE = [tr.parse("late = 'yes'", SCHEMA)]
TWO = [*ONE, tr.parse("month = 1", SCHEMA)]


class Fake:
    """A mechanism that knows answers of these margins, or takes a price for what is asked."""

    def __init__(
        self, margins: Sequence[float] | None = None, price: Any = 1, within: Any = 1, *, answers: bool = True
    ) -> None:
        self.answers = answers
        self._margins, self._price, self._within = margins, price, within
        self.schema = SCHEMA

    def known_within(self, queries: Sequence[tr.Query], within: float | None) -> list[Answer] | None:
        """What it knows."""
        if self._margins is None:
            return None
        return [Answer(0.5, 1.0, 10, "cached", margin) for margin in self._margins]

    def price_within(self, queries: Sequence[tr.Query], within: float) -> Fraction:
        """The price of a wish."""
        if isinstance(self._within, Exception):
            raise self._within
        return Fraction(self._within)

    def price_many(self, queries: Sequence[tr.Query]) -> Fraction:
        """The price without one."""
        if isinstance(self._price, Exception):
            raise self._price
        return Fraction(self._price)


def member(fake: Any, name: str = "fake", kind: str = "pmwg") -> Member:
    return Member(Spec(name, kind, Fraction(1, 4), {}), cast(Answering, fake), cast(Any, None))


REFUSAL = tr.GuaranteeError("the database is empty")


@pytest.mark.parametrize(
    ("fake", "asked", "within", "rank"),
    [
        (Fake([0.25, 0.5]), TWO, None, (0, 0.5, True)),
        (Fake([0.25, 0.5], within=7), TWO, 0.1, (0, 0.5, True)),
        (Fake([]), [], None, (0, 0.0, True)),
        (Fake(within=7), ONE, 0.1, (1, 7.0, True)),
        (Fake(within=0), TWO, 0.1, (1, 0.0, True)),
        (Fake(price=0), ONE, None, (1, 0.0, True)),
        (Fake(price=1), ONE, None, (2, 0.0, True)),
        (Fake(price=0), TWO, None, (2, 0.0, True)),
        (Fake(price=REFUSAL), ONE, None, (3, 0.0, True)),
        (Fake(within=REFUSAL), ONE, 0.1, (3, 0.0, True)),
    ],
)
def test_how_well_a_mechanism_suits(
    fake: Fake, asked: Sequence[tr.Query], within: float | None, rank: tuple[int, float, bool]
) -> None:
    assert _rank(member(fake), asked, within) == rank
    assert _rank(member(fake, kind="rings"), asked, within) == (*rank[:2], False)


def test_the_best_suited_of_those_that_answer_is_chosen() -> None:
    learner, dear, known = Fake([0.0], answers=False), Fake(), Fake([0.5])
    members = [member(learner, "learner"), member(dear, "dear"), member(known, "known")]
    assert fitting(members, None, ONE, None) == (2, members[2])
    assert fitting(members, "dear", ONE, None) == (1, members[1])
    assert fitting(members, "learner", ONE, None) == (0, members[0])
    # The only one that answers is chosen without a look at the question.
    assert fitting(members[:2], None, ONE, None) == (1, members[1])
    # Of two that suit as well, rings; or else the first.
    equal = [member(Fake(), "a"), member(Fake(), "b"), member(Fake(), "c", "rings")]
    assert fitting(equal, None, ONE, None)[0] == 2
    assert fitting(equal[:2], None, ONE, None)[0] == 0


def test_a_mechanism_by_its_name_or_the_first_that_answers() -> None:
    members = [member(Fake(answers=False), "learner"), member(Fake(), "a"), member(Fake(), "b")]
    assert [chosen(members, name)[0] for name in (None, "learner", "a", "b")] == [1, 0, 1, 2]
    assert chosen(iter(members), "b") == (2, members[2])
    with pytest.raises(tr.ParameterError, match="'c' is not in this vault; there are: learner, a, b") as refusal:
        chosen(members, "c")
    assert refusal.value.parameter == "mechanism"
    with pytest.raises(tr.ParameterError, match="'c' is not in this vault; there are: none"):
        chosen([], "c")
    for without in (members[:1], []):
        with pytest.raises(tr.ParameterError, match="must be added first: this vault has none that answers queries"):
            chosen(without, None)


def test_who_keeps_sums() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    first, second = Rings(db, 1.0, delta=1e-6), Rings(db, 1.0, delta=1e-6)
    members = [member(Fake(), "other"), member(first, "first", "rings"), member(second, "second", "rings")]
    assert [measuring(members, name) for name in (None, "first", "second")] == [
        (1, members[1], first),
        (1, members[1], first),
        (2, members[2], second),
    ]
    assert [keeps_sums(members, name) for name in (None, "first", "other", "nobody")] == [True, True, False, False]
    assert not keeps_sums(members[:1], None)
    for name in (None, "other"):
        with pytest.raises(tr.ParameterError, match="must be of kind 'rings', which keeps sums"):
            measuring(members[:1], name)
    with pytest.raises(tr.ParameterError, match="'nobody' is not in this vault; there are: other, first, second"):
        measuring(members, "nobody")
    # A statement is told by rings, unless its numbers are counts and another mechanism answers those.
    assert telling(members, "second", ONE, None) == (2, members[2], second)
    assert telling(members, "other", ONE, None) is None
    assert telling(members, None, None, None) == (1, members[1], first)
    assert telling([member(Fake([0.1]), "other"), *members[1:]], None, ONE, None) is None


# -- opening -----------------------------------------------------------------------------------------------------------


def test_every_journal_is_taken_up_at_the_size_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that may have halted ends at that size, also if mechanisms before it need the counts of earlier sizes."""
    taken: list[int] = []
    take_up = LedgerJournal.take_up

    def noting(own: LedgerJournal, recovered: Recovered, secrets: Mapping[str, SecretValue], size: int) -> None:
        taken.append(size)
        take_up(own, recovered, secrets, size)

    vault = Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6, share=0.5)
    vault.add("rings", 0.5)
    vault.append(frame(2000))
    for name in ("rings", "rings2"):
        vault.ask("late = 'yes'", name)
        vault.append(frame(500, seed=2))
    crash(vault)
    monkeypatch.setattr(LedgerJournal, "take_up", noting)
    with Vault.open(tmp_path / "vault") as again:
        assert again.size == 3000
        assert taken == [3000, 3000]


def test_without_rows_the_size_of_now_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6).close()
    monkeypatch.setattr(LedgerJournal, "take_up", lambda *given: taken.append(given[-1]))
    with Vault.open(tmp_path / "vault") as vault:
        assert taken == [0]
        assert vault._store._record.lines == []  # The journals have them: once is enough.


@pytest.mark.parametrize("rows", [0, 7])
def test_a_reader_makes_mechanisms_of_what_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Comparisons that may have been lost count as made."""
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6, share=0.5) as vault:
        vault.add("pmwg", 0.5)
        if rows:
            vault.append(frame(rows))
        record = vault._store._record
    events, lost = (Noted("a"),), (Compared(rows, 1, 5, None),)
    made: list[tuple[str, Any, Any]] = []

    def build(spec: Spec, db: Any, promise: Any) -> str:
        made.append((spec.name, db, promise))
        return spec.name

    monkeypatch.setattr(members, "build", build)
    found: Any = shown(record, [(), (*events, *lost)])
    assert found == ["rings", "pmwg"]
    assert [(db.schema, db.size, db._events, promise) for _, db, promise in made] == [
        (SCHEMA, rows, (), record.origin.promise),
        (SCHEMA, rows, (*events, *lost), record.origin.promise),
    ]


def test_a_reader_sees_what_each_row_has_left(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6) as vault:
        vault.append(frame(2000))
        vault.ask("late = 'yes'", within=300)
        budget, store = vault.promise.budget, vault._store
        live: Any = mechanism(vault)._gate
        (events,) = store.reading.verify().events
        db = Shown(SCHEMA, 2000, events)
        gates = (live, db.open_gate(budget))
        for position in (1, 2000, 2001):
            assert gates[0].left(position) == gates[1].left(position)
        assert gates[1].left(1) < gates[1].left(2001) == budget.total
        assert gates[0].spent == gates[1].spent > 0
        db.watch(vault._store._watchers.call)
