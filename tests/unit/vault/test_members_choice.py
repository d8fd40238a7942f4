"""Which of several mechanisms is chosen, told from what each says of itself: fakes that say whatever is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

import treering as tr
from support.vaults import SCHEMA, crash, frame, mechanism
from treering.answer import Answer
from treering.domain.language.items import Item, counts
from treering.gate import Compared, Noted
from treering.mechanisms.base import Answering
from treering.mechanisms.plan import Counted, Plan
from treering.mechanisms.rings import Rings
from treering.trusted.ledger.journal import LedgerJournal, Recovered
from treering.trusted.ledger.lines import SecretValue
from treering.trusted.ledger.shares import Spec
from treering.vault import members
from treering.vault.members import (
    Member,
    Shown,
    chosen,
    shown,
)
from treering.vault.planning import candidates, keeps_sums, measuring, planned
from treering.vault.vault import Vault

ONE = counts([tr.parse("late = 'yes'", SCHEMA)])
TWO = [*ONE, *counts([tr.parse("month = 1", SCHEMA)])]


class Fake:
    """A mechanism that knows answers of these margins, or takes a price, without or with a wish."""

    follows_schema = True

    def __init__(
        self, margins: Sequence[float] | None = None, price: Any = 1, within: Any = 1, *, answers: bool = True
    ) -> None:
        self.answers = answers
        self._margins, self._price, self._within = margins, price, within

    def plan(self, items: Sequence[Item], within: float | None) -> Plan:
        """What it says."""
        price = self._price if within is None else self._within
        if isinstance(price, Exception):
            raise price
        known = None
        if self._margins is not None:
            known = Counted(10, [Answer(0.5, 1.0, 10, "cached", margin) for margin in self._margins])
        return Plan(items, within, Fraction(0 if known else price), known, None)


def member(fake: Any, name: str = "fake", kind: str = "pmwg") -> Member:
    return Member(Spec(name, kind, Fraction(1, 4), {}), cast(Answering, fake), cast(Any, None))


def best(members: Sequence[Member], name: str | None = None, within: float | None = None) -> Member:
    """Which mechanism is chosen."""
    found = planned(members, "rho", name, ONE, within)
    assert members[found.number] is found.member
    return found.member


REFUSAL = tr.GuaranteeError("the database is empty")


@pytest.mark.parametrize("kind", ["pmwg", "rings"])
def test_the_one_that_suits_best_is_chosen(kind: str) -> None:
    """What is known, then what is paid for already, then any that can answer."""
    sharp, wide = member(Fake([0.25])), member(Fake([0.5]), kind=kind)
    free, dear, unable = member(Fake(price=0)), member(Fake(), kind=kind), member(Fake(price=REFUSAL), kind=kind)
    for better, worse in pairwise([sharp, wide, free, dear, unable]):
        assert best([better, worse]) is best([worse, better]) is better
    with pytest.raises(tr.GuaranteeError, match="empty"):
        best([unable, unable])


@pytest.mark.parametrize("kind", ["pmwg", "rings"])
def test_with_a_wish_the_cheapest_that_meets_it_is_chosen(kind: str) -> None:
    cheap, dear = member(Fake(within=2)), member(Fake(within=7), kind=kind)
    unable = member(Fake(within=REFUSAL), kind=kind)
    for better, worse in pairwise([member(Fake([0.5])), cheap, dear, unable]):
        assert best([better, worse], within=0.1) is best([worse, better], within=0.1) is better


def test_a_batch_that_is_free_is_no_better_than_one_that_is_paid() -> None:
    free, rings = member(Fake(price=0)), member(Fake(), kind="rings")
    assert planned([free, rings], "rho", None, TWO, None).member is rings
    assert planned([free, rings], "rho", None, ONE, None).member is free


def test_the_best_suited_of_those_that_answer_is_chosen() -> None:
    learner, dear, known = Fake([0.0], answers=False), Fake(), Fake([0.5])
    members = [member(learner, "learner"), member(dear, "dear"), member(known, "known")]
    assert best(members) is members[2]
    assert best(members, "dear") is members[1]
    assert best(members, "learner") is members[0]
    assert best(members[:2]) is members[1]
    # Of two that suit as well, rings; or else the first.
    equal = [member(Fake(), "a"), member(Fake(), "b"), member(Fake(), "c", "rings")]
    assert best(equal) is equal[2]
    assert best(equal[:2]) is equal[0]


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
        with pytest.raises(tr.ParameterError, match="must be added first: this vault has none that answers queries"):
            best(without)


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
    total = Item("sum", ONE[0].query, 1)
    assert candidates(members, None, ONE) == list(enumerate(members))
    assert candidates(members, None, [*ONE, total]) == [(1, members[1]), (2, members[2])]
    assert candidates(members, "second", [total]) == [(2, members[2])]
    with pytest.raises(tr.ParameterError, match="must be of kind 'rings', which keeps sums"):
        candidates(members, "other", [total])


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
