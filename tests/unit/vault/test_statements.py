"""What was released for a statement: kept under a key as it is, and made into the same table at any time."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from treering.answer import Bill, Estimate
from treering.errors import KeyUsed, QueryError
from treering.mechanisms.series.drawing import Drawing, Source, Stream
from treering.sql.split import Statement
from treering.theory.continual import Law
from treering.vault import statements
from treering.vault.statements import Released, kept_released, recorded

SCHEMA = tr.Schema(
    {"late": tr.categories("no", "yes"), "month": tr.integers(1, 12), "delay": tr.numbers(0, 100)},
)
ROWS = [{"late": ("no", "yes")[row % 2], "month": row % 12 + 1, "delay": float(row % 100)} for row in range(6000)]
SHARES = "SELECT month, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM t WHERE late = 'no') AS share FROM t GROUP BY month"
STATEMENTS = (
    "SELECT month, COUNT(*) FROM t GROUP BY month",
    SHARES,
    "SELECT late, SUM(delay) * 2, AVG(delay), MEDIAN(month) + 1 FROM t GROUP BY late",
    "SELECT month, COUNT(*) AS n FROM t GROUP BY month HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 3",
)


@pytest.fixture(params=["zcdp", "pure"])
def vault(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    delta = 1e-9 if request.param == "zcdp" else 0.0
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=2.0, delta=delta, pace=8) as vault:
        vault.append(ROWS)
        yield vault


def test_a_table_is_the_same_again_though_rows_have_come(vault: tr.Vault, tmp_path: Path) -> None:
    """Numbers and margins, also those that are worked out from draws of the noise as it was then."""
    first = [vault.sql(text, key=f"k{place}") for place, text in enumerate(STATEMENTS)]
    vault.append(ROWS[:3000])
    vault.sql(SHARES)  # The series grow, and their noise with them.
    vault.ask("late = 'yes' AND month <= 6", within=60)
    _check_kept(vault, first)
    vault.close()
    with tr.Vault.open(tmp_path / "v") as opened:
        _check_kept(opened, first)
        assert not opened.sql(SHARES).equals(first[1])
        opened.verify()


def _check_kept(vault: tr.Vault, first: list[Any]) -> None:
    spent = vault.spent
    for place, text in enumerate(STATEMENTS):
        again = vault.sql(text, key=f"k{place}", bill=Bill(most=0.0))
        assert again.equals(first[place], check_metadata=True)
    assert vault.spent == spent


def test_other_mechanisms_keep_their_numbers_too(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "c", SCHEMA, epsilon=2.0, delta=1e-9, mechanism="continual") as vault:
        vault.append(ROWS)
        first = vault.sql(SHARES, key="k")
        vault.append(ROWS)
        assert vault.sql(SHARES, key="k").equals(first, check_metadata=True)


def test_the_line_is_as_long_as_what_was_released_however_long_the_table(vault: tr.Vault) -> None:
    """A table of 144 rows, each with a long text, from 12 numbers."""
    months, pad = "(SELECT month, COUNT(*) AS n FROM t GROUP BY month)", "x" * 100
    before = list(vault.ledger())[-1]["seq"]
    table = vault.sql(f"SELECT a.n + b.n AS x, '{pad}' AS pad FROM {months} a, {months} b", key="k")
    (line,) = [each for each in vault.ledger(before) if each["kind"] == "answers"]
    assert table.num_rows == 144
    assert 5 * len(str(line["body"])) < table.nbytes


def test_a_key_keeps_no_more_numbers_than_a_line_holds(vault: tr.Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "MOST_KEPT", 11)
    with pytest.raises(QueryError, match="a statement with a key releases at most 11 numbers, and this one 12"):
        vault.sql(STATEMENTS[0], key="k")
    assert vault.spent == 0
    assert vault.sql(STATEMENTS[0]).num_rows == 12


def test_a_table_is_made_while_others_ask(vault: tr.Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key and without, the first time and again."""
    made, asked = threading.Event(), threading.Event()
    real = Released.table

    def slow(outcome: Released, statement: Any) -> Any:
        made.set()
        assert asked.wait(20), "the vault was locked while a table was made"
        return real(outcome, statement)

    monkeypatch.setattr(Released, "table", slow)
    for key in (None, "k", "k"):
        made.clear()
        asked.clear()
        thread = threading.Thread(target=vault.sql, args=(SHARES,), kwargs={"key": key})
        thread.start()
        assert made.wait(20)
        vault.ask("late = 'no'")
        asked.set()
        thread.join(20)


ESTIMATES = [Estimate(3, 1.0, 5.0, 4.5), Estimate(None, -math.inf, math.inf), Estimate(0.1, 0.0, math.inf, None)]
LAW = Law(2.5, ((0.5, 3.0, 2), (1 / 3, 7.0, 1)))


@pytest.mark.parametrize("drawing", [None, Drawing([Stream(Source(3, -1, LAW), (2,), ())], [])])
def test_what_was_released_is_read_as_it_was_written(drawing: Drawing | None) -> None:
    kept = kept_released("k", "asked", Released(ESTIMATES, 17, 2, drawing))
    for each in (kept, kept._replace(plain=json.loads(json.dumps(kept.plain, allow_nan=False)))):
        found = recorded(each, "asked")
        assert (found.estimates, found.size) == (ESTIMATES, 17)
        assert found.sources == (None if drawing is None else [Source(3, -1, LAW)])
        with pytest.raises(KeyUsed, match="'k' was used for something else"):
            recorded(each, "something else")


def released(vault: tr.Vault, statement: Statement) -> Released:
    questions = vault._questions
    return questions._released(statement, questions.plan(statement.items, None, None), None, None, None, math.inf)


def test_draws_need_no_mechanism_and_are_those_of_their_sources(vault: tr.Vault) -> None:
    statement = vault.statement(SHARES)
    outcome = released(vault, statement)
    assert outcome.drawing is not None
    noise = outcome.drawing.draw(outcome.estimates, 50)
    vault.append(ROWS)
    later = released(vault, statement)
    assert later.drawing is not None
    assert not np.array_equal(later.drawing.draw(outcome.estimates, 50), noise)
    assert np.array_equal(outcome.drawing.draw(outcome.estimates, 50), noise)
