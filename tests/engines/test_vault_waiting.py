"""What an engine counts for a vault: nobody else waits for it, and a failure costs nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import treering as tr
from support.engines import Postgres
from treering.answer import Bill
from treering.trusted.engines.source import Source

SCHEMA = tr.Schema(
    {
        "late": tr.categories("no", "yes", other=True, missing=True),
        "month": tr.integers(1, 12, other=True, missing=True),
        "fare": tr.numbers(0, 100, edges=[0, 50, 100]),
    }
)
SLEEP = 2.0
"""Seconds that the engine sleeps for a statement."""
SOON = 0.3
"""Seconds within which a free answer comes."""


@pytest.fixture(autouse=True)
def own_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def rows(start: int, stop: int) -> str:
    columns = "i, case when i % 4 = 0 then 'yes' else 'no' end, i % 12 + 1, i % 100"
    return f"insert into flights select {columns} from range({start}, {stop}) r(i)"


class Table:
    """A table in a DuckDB file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "rows.duckdb"
        self.address = f"duckdb://{self.file}#flights"
        self.execute("create table flights (id bigint, late varchar, month int, fare double)", rows(0, 20_000))

    def execute(self, *statements: str) -> None:
        with duckdb.connect(str(self.file)) as connection:
            for statement in statements:
                connection.execute(statement)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@pytest.fixture
def vault(tmp_path: Path, table: Table) -> Iterator[tr.Vault]:
    with tr.Vault.create(tmp_path / "vault", SCHEMA, 10.0, 1e-6, share=0.5, table=table.address) as made:
        made.refresh()
        yield made


class Counter:
    """How often an engine counted; before each time it does what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.before: Callable[[], None] = lambda: None
        count = Source.count

        def counting(source: Source, *given: Any, **more: Any) -> Any:
            self.times += 1
            self.before()
            return count(source, *given, **more)

        monkeypatch.setattr(Source, "count", counting)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def fail() -> None:
    raise tr.EngineError("the engine is away")


def state(vault: tr.Vault) -> tuple[Any, ...]:
    """What is charged, and what is on record."""
    return vault.spent, vault.left(1), vault.left(vault.size), vault.status()["entries"]


# -- nobody waits ------------------------------------------------------------------------------------------------------


def test_free_answers_come_at_once_while_a_server_counts(tmp_path: Path, postgres: Postgres) -> None:
    """A view that sleeps, in a real server: the question that needs it takes as long, and others do not wait."""
    postgres.execute(
        "DROP TABLE IF EXISTS pace, waited CASCADE",
        "CREATE TABLE pace (seconds float8)",
        "INSERT INTO pace VALUES (0)",
        "CREATE TABLE waited (id bigint PRIMARY KEY, late text, month int, fare float8)",
        "INSERT INTO waited SELECT i, CASE WHEN i % 4 = 0 THEN 'yes' ELSE 'no' END, i % 12 + 1, i % 100 "
        "FROM generate_series(1, 20000) i",
        "CREATE VIEW slow AS SELECT waited.* FROM (SELECT pg_sleep(seconds)::text AS nap FROM pace OFFSET 0) AS n, "
        "waited WHERE nap = ''",
    )
    address = postgres.address("slow")
    with tr.Vault.create(tmp_path / "vault", SCHEMA, 10.0, 1e-6, table=address) as vault:
        assert vault.refresh() == 20_000
        known = vault.ask("late = 'yes'")
        postgres.execute(f"UPDATE pace SET seconds = {SLEEP}")
        answers: list[tr.Answer] = []
        slow = threading.Thread(target=lambda: answers.append(vault.ask("month = 3")))
        start = time.monotonic()
        slow.start()
        time.sleep(0.2)
        times = []
        while slow.is_alive():
            asked = time.monotonic()
            assert vault.ask("late = 'yes'") == known
            assert vault.price("late = 'no'") == 0
            assert vault.status()["size"] == 20_000
            times.append(time.monotonic() - asked)
            time.sleep(0.05)
        slow.join()
        took = time.monotonic() - start
        (answer,) = answers
        assert abs(answer.value - 1 / 12) <= answer.error
    assert took >= SLEEP
    assert len(times) >= 5
    assert max(times) < SOON, times
    postgres.execute("DROP VIEW slow")


def test_others_ask_and_are_answered_while_a_table_is_refreshed(
    vault: tr.Vault, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = vault.ask("late = 'yes'")
    table.execute(rows(20_000, 21_000))
    increment, answers = Source.increment, []

    def slowly(source: Source, *given: Any) -> Any:
        asking = threading.Thread(target=lambda: answers.append(vault.ask("late = 'yes'")))
        asking.start()
        asking.join(10)
        return increment(source, *given)

    monkeypatch.setattr(Source, "increment", slowly)
    assert vault.refresh() == 21_000
    assert answers == [known]


def test_one_statement_runs_at_a_time_and_equal_questions_share_it(vault: tr.Vault, counter: Counter) -> None:
    running: list[int] = []

    def nap() -> None:
        running.append(1)
        assert len(running) == 1
        time.sleep(0.3)
        running.pop()

    counter.before = nap
    answers: dict[int, tr.Answer] = {}

    def ask(number: int) -> None:
        answers[number] = vault.ask("month = 3" if number % 2 else "late = 'yes'")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len({answers[number] for number in (1, 3, 5, 7)}) == len({answers[number] for number in (0, 2, 4, 6)}) == 1
    assert 2 <= counter.times <= 4  # (Of each question two may find nobody at it at the same moment.)


# -- what is charged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["month = 3", "late = 'yes' AND month <= 6"])
def test_an_engine_that_is_away_costs_nothing_and_free_answers_go_on(
    vault: tr.Vault, counter: Counter, question: str
) -> None:
    known = vault.ask("late = 'yes'")
    before, counter.before = state(vault), fail
    for _ in range(2):
        with pytest.raises(tr.EngineError, match="the engine is away"):
            vault.ask(question)
        with pytest.raises(tr.EngineError, match="the engine is away"):
            vault.sql(f"SELECT month, count(*), avg(fare) FROM t WHERE {question} GROUP BY month")
    assert state(vault) == before
    assert vault.ask("late = 'yes'") == known
    counter.before = lambda: None
    vault.ask(question)
    assert state(vault) != before


def test_of_several_series_none_is_charged_if_the_engine_fails_at_the_second(vault: tr.Vault, counter: Counter) -> None:
    def fail_later() -> None:
        if counter.times > 1:
            fail()

    counter.before = fail_later
    before = state(vault)
    with pytest.raises(tr.EngineError, match="the engine is away"):
        vault.ask_many(["late = 'yes'", "month = 3", "fare < 50"])
    assert counter.times == 2
    assert state(vault) == before


def test_a_question_that_the_budget_does_not_cover_asks_nothing_of_the_engine(
    vault: tr.Vault, counter: Counter
) -> None:
    with pytest.raises(tr.BudgetExceeded):
        vault.ask("month = 3", within=1e-5)
    bill = Bill(most=1e-9)
    with pytest.raises(tr.Dearer):
        vault.ask_many(["month = 3"], bill=bill)
    assert counter.times == 0


@pytest.mark.parametrize("kind", ["pmwg", "continual", "scheduler"])
def test_other_mechanisms_are_not_charged_either(vault: tr.Vault, counter: Counter, kind: str) -> None:
    options: dict[str, dict[str, Any]] = {"pmwg": {"alpha": 0.2}, "scheduler": {"box": "histogram"}}
    vault.add(kind, 0.4, name="other", **options.get(kind, {}))
    before, counter.before = state(vault), fail
    with pytest.raises(tr.EngineError, match="the engine is away"):
        vault.ask("late = 'yes'", mechanism="other")
    assert state(vault)[:3] == before[:3]
    counter.before = lambda: None
    answer = vault.ask("late = 'yes'", mechanism="other")
    assert abs(answer.value - 0.25) <= answer.error
    assert state(vault) != before


# -- what is counted is about the rows that there are ------------------------------------------------------------------


def test_numbers_that_were_counted_before_rows_came_are_not_used(
    vault: tr.Vault, table: Table, counter: Counter
) -> None:
    def grow() -> None:
        counter.before = lambda: None
        table.execute(rows(20_000, 60_000))
        vault.refresh()

    counter.before = grow
    answer = vault.ask("month = 3")
    assert (answer.size, counter.times) == (60_000, 2)
    assert abs(answer.value - 1 / 12) <= answer.error


def test_a_table_that_grows_at_every_moment_is_said_to(vault: tr.Vault, table: Table, counter: Counter) -> None:
    size = 20_000

    def grow() -> None:
        nonlocal size
        table.execute(rows(size, size + 1))
        size = vault.refresh()

    counter.before = grow
    before = state(vault)[:2]
    with pytest.raises(
        tr.EngineError, match="rows came while others were counted, and nothing was answered: ask again"
    ):
        vault.ask("month = 3")
    assert counter.times == 16
    assert state(vault)[:2] == before


def test_a_mechanism_that_is_kept_current_is_current_after_a_refresh(
    vault: tr.Vault, table: Table, counter: Counter
) -> None:
    vault.add("continual", 0.4)
    vault.ask("late = 'yes'", mechanism="continual")
    table.execute(rows(20_000, 22_000))
    vault.refresh()
    counter.before = fail
    assert vault.ask("late = 'yes'", mechanism="continual").size == 22_000


def test_a_vault_is_opened_without_its_engine_and_every_leaf_is_counted_in_one_statement(
    tmp_path: Path, vault: tr.Vault, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20, 40):
        vault.ask("late = 'yes'")
        table.execute(rows(1000 * number, 1000 * (number + 1)))
        vault.refresh()
    vault.close()
    away = table.file.rename(tmp_path / "away.duckdb")
    with tr.Vault.open(tmp_path / "vault") as again:
        before = state(again)
        with pytest.raises(tr.EngineError, match="there is no DuckDB file"):
            again.ask("late = 'yes'")
        assert state(again) == before
        away.rename(table.file)
        counter = Counter(monkeypatch)
        answer = again.ask("late = 'yes'")
        assert (answer.size, counter.times) == (40_000, 1)
        assert abs(answer.value - 0.25) <= answer.error
