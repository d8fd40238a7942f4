"""Threads that ask at the same time share commits: nothing leaves before it, and all it rests on, is durable."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import treering as tr
from support.interrupts import Interrupt
from support.patience import PATIENCE, until
from support.vaults import SCHEMA, crash, frame, kinds, questions, states
from treering.trusted.ledger import ledger as ledgers
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.lines import Line, SecretValue
from treering.vault.vault import Vault


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with Vault.create(tmp_path / "vault", SCHEMA, 1000.0, 1e-6, alpha=0.1, beta=1e-9, mechanism="pmwg") as made:
        made.append(frame(20_000))
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


class Disk:
    """A disk that takes its time: commits wait at it until they are let through, and may then fail."""

    def __init__(self) -> None:
        self.commits = 0
        self.waiting = threading.Event()
        self.through = threading.Event()
        self.error: Exception | None = None

    def __call__(self, step: Stage) -> None:
        if step is Stage.COMMIT_READY:
            self.commits += 1
            self.waiting.set()
            assert self.through.wait(PATIENCE)
            if self.error is not None:
                raise self.error


@contextmanager
def slow_disk() -> Iterator[Disk]:
    disk = Disk()
    observe(disk)
    try:
        yield disk
    finally:
        disk.through.set()
        observe(None)


def until_waiting(vault: Vault, threads: int) -> None:
    until(lambda: len(vault._questions._access._jobs._waiting) == threads)


def test_one_commit_serves_all_who_asked_meanwhile(vault: Vault, pool: ThreadPoolExecutor) -> None:
    first, *others = questions(6)
    with slow_disk() as disk:
        answers = [pool.submit(vault.ask, first)]
        assert disk.waiting.wait(PATIENCE)
        answers += [pool.submit(vault.ask, other) for other in others]
        until_waiting(vault, len(others))
        assert not any(answer.done() for answer in answers)
        disk.through.set()
        given = [answer.result(PATIENCE) for answer in answers]
    assert {answer.kind for answer in given} == {"measured"}
    assert disk.commits == 2
    state, spent = states(vault), vault.spent
    crash(vault)
    with Vault.open(vault._store._folder.path) as again:
        assert states(again) == state
        assert again.spent == spent
        assert [again.ask(query).value for query in (first, *others)] == [answer.value for answer in given]


def test_an_answer_that_costs_nothing_waits_for_what_it_rests_on(vault: Vault, pool: ThreadPoolExecutor) -> None:
    (query,) = questions(1)
    with slow_disk() as disk:
        measured = pool.submit(vault.ask, query)
        assert disk.waiting.wait(PATIENCE)
        cached = pool.submit(vault.ask, query)
        until(cached.running)
        time.sleep(0.05)
        assert not cached.done()
        disk.through.set()
        assert cached.result(PATIENCE).kind == "cached"
        assert cached.result().value == measured.result().value
    assert disk.commits == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda vault: vault.spent,
        lambda vault: vault.status()["spent"],
        lambda vault: vault.price(questions(1)[0]),
        lambda vault: vault.synthesize(3),
        lambda vault: vault.append(frame(10)),
        lambda vault: vault.verify(),
    ],
    ids=["spent", "status", "price", "synthesize", "append", "verify"],
)
def test_nobody_sees_what_is_not_durable(
    vault: Vault, pool: ThreadPoolExecutor, look: Callable[[Vault], object]
) -> None:
    with slow_disk() as disk:
        pool.submit(vault.ask, questions(1)[0])
        assert disk.waiting.wait(PATIENCE)
        seen = pool.submit(look, vault)
        time.sleep(0.05)
        assert not seen.done()
        disk.through.set()
        seen.result(PATIENCE)


def test_a_disk_that_fails_fails_all_who_wait_for_it(vault: Vault, pool: ThreadPoolExecutor) -> None:
    lines, spent = len(kinds(vault)), vault.spent
    first, second = questions(2)
    with slow_disk() as disk:
        answers = [pool.submit(vault.ask, first)]
        assert disk.waiting.wait(PATIENCE)
        answers.append(pool.submit(vault.ask, second))
        until_waiting(vault, 1)
        disk.error = apsw.FullError("it is full")
        disk.through.set()
        for answer in answers:
            with pytest.raises(tr.VaultError, match="the disk is full"):
                answer.result(PATIENCE)
    with pytest.raises(tr.VaultError, match="open the vault again"):
        vault.ask(second)
    crash(vault)
    with Vault.open(vault._store._folder.path) as again:
        assert (len(kinds(again)), again.spent) == (lines, spent)
        assert again.ask(first).kind == "measured"


def test_answers_before_a_refusal_do_not_leave_if_the_disk_fails(tmp_path: Path) -> None:
    """A batch that ends in an error carries the answers before it: on record, or not at all."""
    with Vault.create(tmp_path / "poor", SCHEMA, 0.5, 0.0, alpha=0.1, beta=0.05, mechanism="pmwg") as vault:
        vault.append(frame(2000))
        asked = questions(500)
        with pytest.raises(tr.BudgetExceeded) as refused:
            vault.ask_many(asked)
        assert len(refused.value.answers) > 0
    with Vault.create(tmp_path / "broken", SCHEMA, 0.5, 0.0, alpha=0.1, beta=0.05, mechanism="pmwg") as vault:
        vault.append(frame(2000))
        with slow_disk() as disk:
            disk.error = apsw.IOError("it failed")
            disk.through.set()
            with pytest.raises(tr.VaultError, match="the disk failed") as failed:
                vault.ask_many(asked)
        assert failed.value.answers == ()
        assert not isinstance(failed.value.__context__, tr.BudgetExceeded)


def test_a_key_used_by_two_threads_at_once_is_charged_once(vault: Vault, pool: ThreadPoolExecutor) -> None:
    (query,) = questions(1)
    with slow_disk() as disk:
        asking: list[Future[tr.Answer]] = [pool.submit(vault.ask, query, None, "only")]
        assert disk.waiting.wait(PATIENCE)
        asking.append(pool.submit(vault.ask, query, None, "only"))
        time.sleep(0.05)
        assert not asking[1].done()
        disk.through.set()
        assert asking[0].result(PATIENCE) == asking[1].result(PATIENCE)
    assert kinds(vault).count("answers") == 1


def test_closing_waits_for_those_who_were_answered(vault: Vault, pool: ThreadPoolExecutor) -> None:
    with slow_disk() as disk:
        answer = pool.submit(vault.ask, questions(1)[0])
        assert disk.waiting.wait(PATIENCE)
        closing = pool.submit(vault.close)
        time.sleep(0.05)
        assert not closing.done()
        disk.through.set()
        closing.result(PATIENCE)
        assert answer.result(PATIENCE).kind == "measured"
    assert tr.Vault.read(vault._store._folder.path).status()["entries"] == vault._store._ledger.seq


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_a_secret_that_comes_and_goes_is_never_on_disk(tmp_path: Path) -> None:
    ledger = ledgers.create(tmp_path / "ledger.sqlite")
    seen: list[list[str]] = []
    observe(lambda step: seen.append(sorted(ledger.secrets())) if step is Stage.COMMIT_READY else None)
    try:
        with ledger.transaction():
            ledger.write(Line("event", "{}"), put=SecretValue("short", b"salt", "7"))
            ledger.write(Line("event", "{}"), put=SecretValue("long", b"salt", "8"))
            ledger.write(Line("event", "{}"), drop=("short",))
        with ledger.transaction():
            with ledger.transaction():
                ledger.write(Line("event", "{}"), put=SecretValue("later", b"salt", "9"))
            with ledger.transaction():
                ledger.write(Line("event", "{}"), drop=("later",))
        ledger.write(Line("event", "{}"), drop=("long",))
    finally:
        observe(None)
        ledger.close()
    assert seen == [["long"], ["long"], []]


def test_nothing_of_a_transaction_in_progress_is_committed(tmp_path: Path) -> None:
    ledger = ledgers.create(tmp_path / "ledger.sqlite")
    with ledger.transaction():
        ledger.write(Line("event", "{}"))
        with ledger.transaction():
            ledger.write(Line("event", "{}"))
        assert ledger.seq == 0
    assert ledger.seq == 2
    ledger.close()


# -- those who are not alone in a commit -------------------------------------------------------------------------------


def test_a_refusal_is_the_error_of_who_asked_and_no_one_elses(vault: Vault, pool: ThreadPoolExecutor) -> None:
    first, *others = questions(3)
    with slow_disk() as disk:
        asking = [pool.submit(vault.ask, first)]
        assert disk.waiting.wait(PATIENCE)
        asking += [pool.submit(vault.ask, other) for other in others]
        wrong = pool.submit(vault.ask, first, "nobody")
        until_waiting(vault, 3)
        disk.through.set()
        assert {each.result(PATIENCE).kind for each in asking} == {"measured"}
        with pytest.raises(tr.ParameterError, match="'nobody' is not in this vault"):
            wrong.result(PATIENCE)
    assert disk.commits == 2


def asked_in_order(
    vault: Vault, pool: ThreadPoolExecutor, disk: Disk, queries: Sequence[tr.Query]
) -> list[Future[tr.Answer]]:
    """The first is asked alone, and the others, from threads of their own, while the disk takes its time."""
    asking = [pool.submit(vault.ask, queries[0])]
    assert disk.waiting.wait(PATIENCE)
    for number, each in enumerate(queries[1:], 1):
        asking.append(pool.submit(vault.ask, each))
        until_waiting(vault, number)
    disk.through.set()
    return asking


def test_who_is_interrupted_stops_the_vault_and_loses_nothing(
    vault: Vault, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is none of ours, after something was written: what came before it is durable and may leave, what
    comes after is refused, and the next opening goes on from what is on record."""
    answer = tr.PMWG._answer
    first, good, bad, late = questions(4)

    def breaking(pmwg: tr.PMWG, queries: Sequence[tr.Query]) -> list[tr.Answer]:
        answers = answer(pmwg, queries)
        if queries == [bad]:
            raise RuntimeError("the machine is on fire")
        return answers

    monkeypatch.setattr(tr.PMWG, "_answer", breaking)
    with slow_disk() as disk:
        asking = asked_in_order(vault, pool, disk, (first, good, bad, late))
        given = [asking[0].result(PATIENCE), asking[1].result(PATIENCE)]
        with pytest.raises(RuntimeError, match="on fire"):
            asking[2].result(PATIENCE)
        with pytest.raises(tr.VaultError, match="interrupted in the middle of an operation"):
            asking[3].result(PATIENCE)
    monkeypatch.undo()
    crash(vault)
    with Vault.open(vault._store._folder.path) as again:
        assert [again.ask(each).value for each in (first, good)] == [each.value for each in given]
        assert again.ask(bad).kind == "cached"  # It was charged, and is on record.
        assert again.ask(late).kind == "measured"


def test_who_fails_before_anything_is_written_stops_nobody(
    vault: Vault, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though others' lines wait for the same commit."""
    answer = tr.PMWG._answer
    first, good, bad, late = questions(4)

    def failing(pmwg: tr.PMWG, queries: Sequence[tr.Query]) -> list[tr.Answer]:
        if queries == [bad]:
            raise MemoryError
        return answer(pmwg, queries)

    monkeypatch.setattr(tr.PMWG, "_answer", failing)
    with slow_disk() as disk:
        asking = asked_in_order(vault, pool, disk, (first, good, bad, late))
        assert {asking[number].result(PATIENCE).kind for number in (0, 1, 3)} == {"measured"}
        with pytest.raises(MemoryError):
            asking[2].result(PATIENCE)
    assert disk.commits == 2


def test_many_threads_lose_no_line_and_no_charge(vault: Vault) -> None:
    """Eight analysts at once: what they were told is on record, and all that is on record was paid."""
    asked = questions(160)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda start: [vault.ask(each) for each in asked[start::8]], range(8)))
    state, spent = states(vault), vault.spent
    crash(vault)
    with Vault.open(vault._store._folder.path) as again:
        assert (states(again), again.spent) == (state, spent)
        for start, part in enumerate(parts):
            repeated = [again.ask(each) for each in asked[start::8]]
            same = [one.value == other.value for one, other in zip(part, repeated, strict=True) if one.kind != "easy"]
            assert same
            assert all(same)


# -- interrupts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure_first", [True, False])
@pytest.mark.parametrize("step", range(0, 300, 5))
def test_wherever_an_interrupt_falls_what_left_is_on_record(step: int, measure_first: bool, tmp_path: Path) -> None:
    """The vault goes on, or says that it stopped; and whoever opens it again finds all that was released."""
    asked = questions(4)
    vault = Vault.create(tmp_path / "vault", SCHEMA, 1000.0, 1e-6, mechanism=None)
    vault.add("pmwg", 1.0, alpha=0.1, beta=1e-9, measure_first=measure_first)
    vault.append(frame(20_000))
    given = {asked[0]: vault.ask(asked[0], key="0")}
    interrupt = Interrupt(step, "ledger/ledger.py", "vault/together.py", "vault/together.py", "ledger/journal.py")
    try:
        with interrupt:
            given[asked[1]] = vault.ask(asked[1], key="1")
            given[asked[0]] = vault.ask(asked[0])
    except KeyboardInterrupt:
        pass
    try:
        for number in (2, 3):
            given[asked[number]] = vault.ask(asked[number], key=f"{number}")
        spent, said = vault.spent, ""
    except tr.VaultError as error:
        spent, said = math.inf, str(error)
    assert not said or (interrupt.fell and "interrupted" in said)
    crash(vault)
    with Vault.open(vault._store._folder.path) as again:
        assert again.spent <= spent  # What was charged, and interrupted before it was written down, released nothing.
        for number, query in enumerate(asked):
            if query in given:
                assert again.ask(query, key=f"{number}").value == given[query].value
        again.verify()
