"""What each operation of a vault does, step by step, in vaults so small that every step can be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import apsw
import pytest

import treering as tr
from support.parts import make_often
from support.vaults import crash
from treering.budget.promise import Promise
from treering.trusted import creating
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.journal import LedgerJournal
from treering.trusted.ledger.lines import Line
from treering.trusted.ledger.shares import Spec
from treering.trusted.memory.watchers import Watchers
from treering.trusted.rows.intake import DroppedRows
from treering.trusted.rows.parts import Parts
from treering.trusted.store import create, originate
from treering.vault.beginning import first_spec
from treering.vault.members import Member
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"late": tr.categories("no", "yes"), "month": tr.integers(1, 3)})
ROW = {"late": "no", "month": 1}
BAD = {"late": "no", "month": 4}


def made(place: Path, **options: Any) -> Vault:
    return Vault.create(place, SCHEMA, **{"epsilon": 2.0, "delta": 1e-9, "share": 0.5, **options})


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with made(tmp_path / "vault") as opened:
        yield opened


def lines(vault: Vault) -> list[str]:
    return [line["kind"] for line in vault.ledger()]


def staged(work: Callable[[], object], *wanted: Stage) -> list[Stage]:
    """Which of the wanted stages are reached, in order."""
    found: list[Stage] = []
    observe(found.append)
    try:
        work()
    finally:
        observe(None)
    return [stage for stage in found if stage in wanted]


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each settling of a journal takes a new lease."""
    found: list[bool] = []

    def settle(_: LedgerJournal, *, renew: bool = False) -> None:
        found.append(renew)

    monkeypatch.setattr(LedgerJournal, "settle", settle)
    return found


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows_are_durable_then_counted_then_told(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(Watchers, "call", lambda _: sizes.append(vault.size))
    steps = (Stage.COMMITTED, Stage.ROWS_DURABLE, Stage.ROWS_COUNTED)
    assert staged(lambda: vault.append([ROW] * 3), Stage.PART_OPENED, *steps) == list(steps)
    assert sizes == [3]
    make_often(monkeypatch, large=4)
    assert staged(lambda: vault.append([ROW] * 4), Stage.PART_NAMED, *steps) == [
        *(Stage.PART_NAMED, Stage.COMMITTED),  # the tail before it
        *(Stage.PART_NAMED, *steps),
    ]
    assert sizes == [3, 7]


def test_an_append_returns_the_new_size(vault: Vault) -> None:
    assert [vault.append([ROW] * rows) for rows in (2, 0, 3)] == [2, 2, 5]
    assert lines(vault)[2:] == ["rows", "rows"]
    assert vault.append([ROW], key="one") == 6
    assert vault.append([ROW], key="one") == 6
    with pytest.raises(tr.KeyUsed):
        vault.append([ROW] * 9, key="one")
    assert vault.append([], key="none") == vault.append([], key="none") == 6
    with pytest.raises(tr.KeyUsed):
        vault.append([ROW] * 9, key="none")
    assert vault.append([ROW]) == vault.size == 7
    assert lines(vault)[2:] == ["rows"] * 5
    unknown: Any = "ignore"
    with pytest.raises(tr.ParameterError, match='must be "refuse" or "drop"') as refusal:
        vault.append([ROW], unknown)
    assert refusal.value.parameter == "on_invalid"
    with pytest.raises(tr.ParameterError, match="key must be a printable text"):
        vault.append([ROW], key="")
    assert vault.size == 7


def test_rows_that_are_left_out_are_warned_of_and_counted(vault: Vault) -> None:
    with pytest.warns(DroppedRows, match="1 of 3 rows did not fit and was dropped") as warned:
        assert vault.append([ROW, BAD, ROW], "drop") == 2
    assert warned[0].filename == __file__
    with pytest.warns(DroppedRows, match="1 of 1 row did not fit and was dropped"):
        assert vault.append([BAD], "drop") == 2
    assert (vault.status()["dropped"], vault.status()["batches"]) == (2, 2)
    with pytest.raises(tr.DataError, match="row 1"):
        vault.append([ROW, BAD])
    assert vault.size == 2


@pytest.mark.filterwarnings("error::treering.trusted.rows.intake.DroppedRows")
def test_where_warnings_are_errors_nothing_has_happened(vault: Vault, tmp_path: Path) -> None:
    before = lines(vault)
    with pytest.raises(DroppedRows):
        vault.append([ROW, BAD], "drop")
    assert (vault.size, lines(vault), list((tmp_path / "vault" / "parts").iterdir())) == (0, before, [])


def test_rows_of_persons_are_counted_by_person(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    with made(place, rows_per_person=2, person="who") as vault:
        assert vault.append([{**ROW, "who": "a"}], key="k") == 1
        assert vault.append([{**ROW, "who": "a"}], key="k") == 1
        assert vault.append([{**ROW, "who": "a"}, {**ROW, "who": "b"}]) == 3
        with pytest.raises(tr.DataError, match="its person has 2 rows already"):
            vault.append([{**ROW, "who": "a"}])
    with Vault.open(place) as vault:
        with pytest.raises(tr.DataError, match="its person has 2 rows already"):
            vault.append([{**ROW, "who": "a"}])
        assert vault.append([{**ROW, "who": "b"}]) == 4
        assert vault.verify()["size"] == 4


def test_leases_are_renewed_in_the_commit_of_new_rows_and_before_a_backup(
    vault: Vault, settled: list[bool], tmp_path: Path
) -> None:
    vault.add("pmwg", 0.5)
    vault.append([ROW])
    assert settled == [True, True]
    vault.backup(tmp_path / "backup")
    assert settled == [True] * 4


def test_a_vault_that_was_told_of_a_failure_while_rows_were_told_stops(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watchers, "call", lambda _: vault._store._ledger.fail("a mechanism could not be told"))
    with pytest.raises(tr.VaultError, match="stopped because a mechanism could not be told"):
        vault.append([ROW])


# -- opening and closing -----------------------------------------------------------------------------------------------


def is_open(place: Path) -> bool:
    return str(place / "ledger.sqlite") in {each.filename for each in apsw.connections()}


def test_an_opening_that_fails_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vault"
    made(place).close()

    def broken(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "load", broken)
        with pytest.raises(MemoryError) as refusal:
            Vault.open(place, wait=0)
        assert not is_open(place), refusal
    Vault.open(place, wait=0).close()


def test_closing_settles_all_and_lets_the_next_one_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a journal cannot be closed, or the vault has stopped."""
    place, done = tmp_path / "vault", list[tuple[str, Any]]()

    def failing(own: LedgerJournal) -> None:
        done.append(("journal", own._number))
        raise tr.VaultError("the disk is full")

    def condensed(_: Member, *, closing: bool = False) -> None:
        done.append(("member", closing))

    for stopped in (False, True):
        vault = Vault.open(place, wait=0) if stopped else made(place)
        if not stopped:
            vault.add("pmwg", 0.5)
        with monkeypatch.context() as patch:
            patch.setattr(LedgerJournal, "close", failing)
            patch.setattr(Member, "condense", condensed)
            if stopped:
                vault._store._ledger.fail("the tests say so")
            vault.close()
        assert not is_open(place)
        assert done == [("member", True), ("member", True), ("journal", 0), ("journal", 1)]
        done.clear()
    Vault.open(place, wait=0).close()


def test_closing_lets_go_even_if_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vault"
    vault = made(place)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Member, "condense", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vault.close()
    assert not is_open(place)
    Vault.open(place, wait=0).close()


def test_closing_finds_a_transaction_that_an_interrupt_left(tmp_path: Path) -> None:
    """What waits in it is not written by the way: memory may be ahead of it."""
    vault = made(tmp_path / "vault")
    before = len(lines(vault))
    vault._store._ledger.__enter__()
    vault._store._ledger.write(Line("event", "{}", 0))
    vault.close()
    with Vault.open(tmp_path / "vault") as again:
        assert len(lines(again)) == before


def test_everything_is_there_again(tmp_path: Path) -> None:
    place = tmp_path / "vault"
    vault = made(place)
    vault.append([ROW] * 300)
    answer = vault.ask("late = 'yes'", key="k")
    status, spent, total = vault.status(), vault.spent, vault.total
    left = [vault.left(position) for position in (1, 300, 301)]
    crash(vault)
    with Vault.open(place) as again:
        assert again.status() == status
        assert again.ask("late = 'yes'", key="k") == answer
        assert (again.spent, again.total, again.size) == (spent, total, 300)
        assert again.promise.budget == Promise(2.0, 1e-9).budget
        assert [again.left(position) for position in (1, 300, 301)] == left
        assert left[2] == pytest.approx(total / 2)
        assert left[0] == pytest.approx(total / 2 - spent)
        positions: list[Any] = [0, -1, 1.5, True]
        for wrong in positions:
            with pytest.raises(tr.ParameterError, match="position"):
                again.left(wrong)


# -- the promise -------------------------------------------------------------------------------------------------------


def test_a_mechanism_is_on_record_before_it_is_made(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (Stage.COMMITTED, Stage.MECHANISM_DURABLE)
    assert staged(lambda: vault.add("continual", 0.2), *steps) == list(steps)
    assert [member.spec.name for member in vault._members] == ["rings", "continual"]
    assert [spec.share for spec in vault._store._record.specs] == [Fraction(1, 2), Fraction(1, 5)]

    def broken(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Member, "of", broken)
        with pytest.raises(MemoryError):
            vault.add("pmwg", 0.1)
    with pytest.raises(tr.VaultError, match="while a new mechanism, which is on record, was made"):
        vault.status()


def test_a_share_that_is_given_up_makes_the_mechanism_anew(vault: Vault) -> None:
    """From the same journal, with what is left of its share."""
    vault.add("pmwg", 0.1)
    before, journals = list(vault._members), list(vault._store._journals)
    vault.add("continual", 0.6)
    rings, pmwg, continual = vault._members
    assert (rings.spec.share, continual.spec.share) == (Fraction(3, 10), Fraction(6, 10))
    assert rings.mechanism is not before[0].mechanism
    assert [own._number for own in vault._store._journals] == [0, 1, 2]
    assert vault._store._journals[:2] == journals
    assert rings.mechanism.remaining == pytest.approx(0.3 * vault.total)
    assert pmwg is before[1]
    assert [line["body"].get("shares") for line in vault.ledger() if line["kind"] == "mechanism"] == [
        None,
        None,
        {"rings": "3/10"},
    ]


def test_a_mechanism_that_cannot_be_made_is_refused_before_it_is_on_record(vault: Vault) -> None:
    before = lines(vault)
    for kind, share, options in (("pmwg", 0.1, {"alpha": 2}), ("none", 0.1, {}), ("pmwg", 0.1, {"more": 1})):
        with pytest.raises(tr.ParameterError):
            vault.add(kind, share, **options)
    assert lines(vault) == before


# -- creating ----------------------------------------------------------------------------------------------------------


def test_a_new_vault_has_its_first_lines_and_nobody_in_it(tmp_path: Path) -> None:
    for first, expected in ((None, ["created"]), ("rings", ["created", "mechanism"])):
        place = tmp_path / str(first)
        origin = originate(SCHEMA, Promise(1.0, 0.0, 3), "who", None, "id")
        spec = None if first is None else first_spec(origin, first, 1.0, None, 0.05, 10, {})
        create(place, origin, spec, 0)
        assert not is_open(place)
        with Vault.open(place, wait=0) as vault:
            assert lines(vault) == expected
            assert list(vault._store._ledger.secrets()) == ["persons"]
            assert len(vault._store._ledger.secrets()["persons"].value) == 64
            assert vault._store._record.origin.identity == origin.identity
    assert staged(lambda: made(tmp_path / "one").close(), Stage.COMMITTED) == [Stage.COMMITTED]


def test_a_vault_that_could_not_be_made_leaves_nobody_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    place = tmp_path / "vault"
    with monkeypatch.context() as patch:
        patch.setattr(creating, "sync_folder", full)
        with pytest.raises(tr.VaultError, match=f"cannot create a vault at {place}: the disk is full") as refusal:
            made(place)
    assert not is_open(place), refusal
    Vault.open(place, wait=0).close()


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_how_a_vault_shows_itself(vault: Vault) -> None:
    vault.append([ROW] * 2000)
    assert repr(vault) == "Vault(2,000 rows; 6 cells; 1 mechanism)"
    assert "rings" in vault._repr_html_()


def test_a_backup_is_a_vault_of_its_own(vault: Vault, tmp_path: Path) -> None:
    vault.append([ROW] * 300)
    vault.ask("late = 'yes'", key="k")
    vault.backup(tmp_path / "backup")
    assert not is_open(tmp_path / "backup")
    with pytest.raises(tr.VaultError, match="exists already"):
        vault.backup(tmp_path / "backup")
    with Vault.open(tmp_path / "backup") as copy:
        assert copy.status() == vault.status()
        assert copy.ask("late = 'yes'", key="k") == vault.ask("late = 'yes'", key="k")
        assert copy.verify(vault.status()["head"])["head_found"]


# -- models and synthetic rows -----------------------------------------------------------------------------------------


class Learner:
    """A mechanism that learns, and writes two lines when it does."""

    answers, spent, settled = False, 0.0, False

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.asked: list[tuple[bool, Any]] = []

    def learnt(self, *, update: bool, progress: Any) -> str:
        """A model."""
        self.asked.append((update, progress))
        for _ in range(2):
            self._vault._store._ledger.write(Line("note", "{}"))
        assert self._vault._store._ledger.waiting == 2
        return "a model"


def test_models_come_from_the_learner_that_is_named_or_the_first(vault: Vault) -> None:
    """In one commit, and with what the caller wants to know of its progress."""

    def progress(_: float, __: str) -> None:
        """Nothing."""

    with pytest.raises(tr.ParameterError, match="'ermg' is not in this vault; there are: rings"):
        vault.model()
    learners = [Learner(vault), Learner(vault)]
    for name, learner in zip(("one", "two"), learners, strict=True):
        new: Any = learner
        vault._members.append(Member(Spec(name, "ermg", Fraction(1, 8), {}), new, lambda: 0))
    before = vault._store._ledger.seq
    learnt: Any = vault.model()
    assert (learnt, vault._store._ledger.seq) == ("a model", before + 2)
    vault.model("two", update=False, progress=progress)
    assert [learner.asked for learner in learners] == [[(True, None)], [(False, progress)]]
    with pytest.raises(tr.ParameterError, match="'rings' learns no model: add one of kind 'ermrings' or 'ermg'"):
        vault.model("rings")
    del vault._members[1:]


def test_synthetic_rows_come_from_the_mechanism_that_is_named(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.add("pmwg", 0.5)
    monkeypatch.setattr(tr.Rings, "sample", lambda _, *given: ("of rings", *given))
    monkeypatch.setattr(tr.PMWG, "sample", lambda _, *given: ("of pmwg", *given))
    found: list[Any] = [vault.synthesize(3, "pmwg", "generator"), vault.synthesize(5)]
    assert found == [("of pmwg", 3, "generator"), ("of rings", 5, None)]
