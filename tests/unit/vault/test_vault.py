"""A vault from outside: rows in, answers out, over closing and opening."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.vaults import (
    BETA,
    DELTA,
    EPSILON,
    SCHEMA,
    asked,
    frame,
    full,
    guarded,
    kinds,
    mechanism,
    questions,
    states,
)
from treering.trusted.rows.intake import DroppedRows
from treering.vault.vault import Vault

NAN = float("nan")
WRONG: Any = "ignore"
ROW = {"origin": "JFK", "month": 3, "late": "yes"}
BAD = {"origin": "JFK", "month": 13, "late": "yes"}


@pytest.fixture
def vault(tmp_path: Path) -> Any:
    with guarded(tmp_path / "vault") as opened:
        yield opened


def test_what_was_answered_is_there_again(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        answers = vault.ask_many(questions(10), key="first")
        spent = vault.spent
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.size == 20_000
        assert vault.spent == spent > 0
        assert vault.ask_many(questions(10), key="first") == answers
        assert vault.spent == spent


def test_answers_are_within_their_errors(vault: Vault) -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append(frame(20_000))
    for query, answer in zip(questions(30), vault.ask_many(questions(30)), strict=True):
        assert abs(answer.value - db._rows.cells.count(query) / 20_000) <= answer.error <= 0.1
        assert answer.size == 20_000


def test_text_and_query_are_the_same_question(vault: Vault) -> None:
    answer = vault.ask("late = 'yes' AND month <= 6", key="text")
    assert vault.ask(tr.parse("late = 'yes' AND month <= 6", SCHEMA), key="text") == answer


def test_a_vault_is_private(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(3))
        found = [tmp_path / "vault", *(tmp_path / "vault").rglob("*")]
        assert len(found) >= 5
        for each in found:
            assert stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600), each


def test_its_repr_shows_nothing_private(vault: Vault) -> None:
    assert repr(vault) == "Vault(20,000 rows; 72 cells; 1 mechanism)"
    with pytest.raises(TypeError):
        vault.__reduce_ex__(2)


# -- rows --------------------------------------------------------------------------------------------------------------


def test_append_returns_the_size_and_takes_all_or_nothing(vault: Vault) -> None:
    assert vault.append([ROW, ROW]) == 20_002
    before = kinds(vault)
    with pytest.raises(tr.DataError, match="row 1, column 'month'") as caught:
        vault.append([ROW, BAD])
    assert "13" not in str(caught.value)
    assert (vault.size, kinds(vault)) == (20_002, before)


def test_rows_that_do_not_fit_can_be_dropped_and_are_counted(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=0) as vault:
        with pytest.warns(DroppedRows, match="2 of 3 rows") as warned:
            assert vault.append([ROW, BAD, BAD], on_invalid="drop") == 1
        assert warned[0].filename == __file__
        with pytest.warns(DroppedRows, match="1 of 1 row did not fit and was dropped"):
            assert vault.append([BAD], on_invalid="drop") == 1
        with pytest.raises(tr.ParameterError, match="on_invalid"):
            vault.append([ROW], WRONG)
    with Vault.open(tmp_path / "vault") as vault:
        assert (vault.size, vault.status()["dropped"], vault.status()["batches"]) == (1, 3, 2)


@pytest.mark.parametrize("empty", [[], frame(0)])
def test_an_empty_batch_changes_nothing(vault: Vault, empty: Any) -> None:
    before = vault.status()["head"]
    assert vault.append(empty) == 20_000
    assert vault.status()["head"] == before


def test_an_empty_vault_refuses_for_free(tmp_path: Path) -> None:
    with full(tmp_path / "vault", rows=0) as vault:
        for name in ("pmwg", "continual", "scheduler", "improver"):
            with pytest.raises(tr.GuaranteeError, match="empty"):
                vault.ask("late = 'yes'", name)
        with pytest.raises(tr.GuaranteeError, match="empty"):
            vault.model()
        assert vault.status()["spent"] == 0
        assert vault.verify()["size"] == 0


def test_a_batch_may_be_appended_with_a_key_and_is_taken_once(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=0) as vault:
        assert vault.append([ROW] * 5, key="monday") == 5
        assert vault.append([ROW] * 7, key="tuesday") == 12
        assert vault.append([ROW] * 5, key="monday") == 5
        assert vault.append([], key="wednesday") == 12
        assert vault.append([ROW], key="thursday") == 13
        assert vault.size == 13
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.append([ROW] * 7, key="tuesday") == 12
        assert vault.append([], key="wednesday") == 12
        assert vault.size == 13


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_gives_the_recorded_answer_and_charges_nothing(tmp_path: Path) -> None:
    with full(tmp_path / "vault") as vault:
        first = {name: vault.ask_many(questions(4), name, key=name) for name in ("pmwg", "measured", "continual")}
        before, lines = states(vault), kinds(vault)
        assert {name: vault.ask_many(questions(4), name, key=name) for name in first} == first
        assert (states(vault), kinds(vault)) == (before, lines)


def test_a_key_stands_for_one_question(vault: Vault) -> None:
    vault.ask("late = 'yes'", key="one")
    vault.append([ROW], key="rows")
    spent = vault.spent
    for retry in (
        lambda: vault.ask("late = 'no'", key="one"),
        lambda: vault.ask_many(["late = 'yes'", "late = 'yes'"], key="one"),
        lambda: vault.ask("late = 'yes'", key="rows"),
        lambda: vault.append([ROW], key="one"),
    ):
        with pytest.raises(tr.ParameterError, match="used for something else"):
            retry()
    assert (vault.spent, vault.size) == (spent, 20_001)


def test_a_key_names_a_mechanism_too(tmp_path: Path) -> None:
    with full(tmp_path / "vault") as vault:
        vault.ask("late = 'yes'", "measured", key="one")
        with pytest.raises(tr.ParameterError, match="used for something else"):
            vault.ask("late = 'yes'", "continual", key="one")


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", 7, b"x", "\ud800"])
def test_bad_keys_are_refused(vault: Vault, key: Any) -> None:
    for use in (lambda: vault.ask("late = 'yes'", key=key), lambda: vault.append([ROW], key=key)):
        with pytest.raises(tr.ParameterError, match="key must be"):
            use()
    assert (vault.spent, vault.size) == (0, 20_000)


# -- questions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["colour = 'red'", "late >>", "", 17, None])
def test_a_bad_question_costs_nothing(vault: Vault, question: Any) -> None:
    before = kinds(vault)
    with pytest.raises(tr.QueryError):
        vault.ask(question)
    with pytest.raises(tr.QueryError):
        vault.price(question)
    with pytest.raises(tr.QueryError, match="query 1"):
        vault.ask_many(["late = 'yes'", question])
    assert (vault.spent, kinds(vault)) == (0, before)


def test_no_questions_no_answers(vault: Vault) -> None:
    assert vault.ask_many([]) == []
    assert vault.spent == 0


def test_an_error_in_a_batch_keeps_what_was_released(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault", rows=2000, epsilon=60.0) as vault:
        with pytest.raises(tr.BudgetExceeded, match="does not cover this") as caught:
            vault.ask_many(questions(200))
        answers, state = caught.value.answers, states(vault)
        assert 0 < len(answers) < 200
        assert all(isinstance(answer, tr.Answer) for answer in answers)
    with Vault.open(tmp_path / "vault") as vault:
        assert states(vault) == state
        assert vault.status()["spent"] <= vault.total


@pytest.mark.parametrize("name", ["nobody", "", 7])
def test_a_mechanism_that_is_not_there(vault: Vault, name: Any) -> None:
    with pytest.raises(tr.ParameterError, match="mechanism .*is not in this vault; there are: pmwg"):
        vault.ask("late = 'yes'", name)


def test_a_vault_may_begin_without_a_mechanism(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, mechanism=None) as vault:
        vault.append([ROW])
        with pytest.raises(tr.ParameterError, match="mechanism must be added first"):
            vault.ask("late = 'yes'")
        with pytest.raises(tr.ParameterError, match="'ermg' is not in this vault; there are: none"):
            vault.model()
        assert vault.status()["share_left"] == 1
        assert vault.status()["guarantee"] is None
        assert vault.add("continual", 1.0) == "continual"
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.status()["share_left"] == 0


def test_models_are_asked_for_by_their_own_method(tmp_path: Path) -> None:
    with full(tmp_path / "vault") as vault:
        with pytest.raises(tr.GuaranteeError, match="no model has been released"):
            vault.model(update=False)
        model = vault.model()
        assert vault.model(update=False).theta == model.theta
        with pytest.raises(tr.QueryError):
            vault.ask("late = 'yes'", "ermg")
        with pytest.raises(tr.ParameterError, match="'pmwg' learns no model"):
            vault.model("pmwg")
        assert vault.status()["mechanisms"][-1]["model"]["theta"] == list(model.theta)
    with Vault.open(tmp_path / "vault") as vault:
        assert vault.model(update=False).theta == model.theta


def test_synthetic_rows_fit_the_schema(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    with full(tmp_path / "vault") as vault:
        vault.ask_many(questions(5))
        vault.ask("late = 'yes'", "scheduler")
        again = tr.GrowingDatabase(SCHEMA)
        assert again.append(vault.synthesize(100)) == 100
        assert again.append(vault.synthesize(100, "scheduler", generator)) == 200
        with pytest.raises(tr.ParameterError, match="generator must be given"):
            vault.synthesize(10, "scheduler")
        for name in ("continual", "ermg"):
            with pytest.raises(tr.QueryError, match="draw no rows"):
                vault.synthesize(10, name, generator)
        with pytest.raises(tr.ParameterError, match="rows"):
            vault.synthesize(-1)


# -- making one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *(({"epsilon": bad}, "epsilon") for bad in (0, -1, NAN, "1", None, True)),
        *(({"delta": bad}, "delta") for bad in (1, -0.1, NAN)),
        *(({"share": bad}, "share") for bad in (0, -0.1, 1.1, NAN, "1")),
        *(({"alpha": bad}, "alpha") for bad in (0, 1, NAN)),
        *(({"beta": bad}, "beta") for bad in (0, 1, NAN)),
        *(({"rows_per_person": bad}, "rows_per_person") for bad in (0, 1.5, True)),
        *(({"mechanism": bad}, "kind") for bad in ("smalldb", "", 7, ["pmwg"])),
        *(({"person": bad}, "person") for bad in ("", "late", 7)),
        ({"rows": 0, "mechanism": "auto"}, "rows"),
        ({"box": "histogram"}, "box"),
        ({"measure_first": object()}, "options"),
        ({"measure_first": NAN}, "options"),
        ({"name": "two words"}, "name"),
        ({"mechanism": "scheduler", "box": "nothing"}, "box"),
        ({"mechanism": "scheduler", "box": "marginals"}, "ways"),
        ({"mechanism": "scheduler", "box": "answers"}, "queries"),
        ({"mechanism": "ermg"}, "target"),
        ({"mechanism": "ermg", "target": "late = 'yes'", "features": ["month"], "loss": "x"}, "loss"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path, given: Any, name: str) -> None:
    options = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "pmwg", **given}
    with pytest.raises(tr.ParameterError, match=name) as caught:
        Vault.create(tmp_path / "vault", SCHEMA, **options)
    assert caught.value.parameter == name
    assert not (tmp_path / "vault").exists()


def test_a_schema_is_needed(tmp_path: Path) -> None:
    with pytest.raises(tr.SchemaError, match="a vault needs a Schema, not str"):
        Vault.create(tmp_path / "vault", WRONG, 1.0)


def test_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    guarded(tmp_path / "vault", rows=0).close()
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "vault", tmp_path / "file"):
        with pytest.raises(tr.VaultError, match="exists already"):
            guarded(place)
    (tmp_path / "empty").mkdir(mode=0o755)
    guarded(tmp_path / "empty", rows=0).close()
    with pytest.raises(tr.VaultError, match="cannot create a vault"):
        guarded(tmp_path / "file" / "below")


def test_auto_is_rings(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6, beta=0.01, pace=7) as vault:
        (only,) = vault.status()["mechanisms"]
        assert (only["name"], only["kind"], only["options"]) == ("rings", "rings", {"beta": 0.01, "pace": 7})
        assert isinstance(mechanism(vault), tr.Rings)
    with pytest.raises(tr.ParameterError, match="measure_first is no option of 'rings'"):
        Vault.create(tmp_path / "other", SCHEMA, 1.0, 1e-6, measure_first=False)


def test_a_pmwg_without_an_alpha_has_the_usual_one(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, 1.0, 1e-6, mechanism="pmwg") as vault:
        assert vault.status()["mechanisms"][0]["options"] == {"alpha": 0.05, "beta": 0.05}


def test_auto_with_an_alpha_is_the_planners_choice(tmp_path: Path) -> None:
    chosen = {}
    for rows in (3000, 10**7):
        with Vault.create(tmp_path / str(rows), SCHEMA, 1.0, 1e-6, alpha=0.05, rows=rows) as vault:
            chosen[rows] = vault.status()["mechanisms"][0]["kind"]
    assert chosen == {3000: "pmwg", 10**7: "continual"}


def test_the_promise_survives_exactly(tmp_path: Path) -> None:
    with Vault.create(tmp_path / "vault", SCHEMA, Fraction(1, 3), rows_per_person=7, mechanism=None) as vault:
        assert vault.total == float(Fraction(1, 21))
    with Vault.open(tmp_path / "vault") as vault:
        assert vault._store._record.origin.promise.budget.total == Fraction(1, 21)
        assert "a person with up to 7 rows" in vault.status()["promise"]
        assert vault.status()["rows_per_person"] == 7


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_records_exactly_what_was_asked(tmp_path: Path) -> None:
    with guarded(tmp_path / "vault") as vault:
        vault.ask_many(questions(300))
        before = asked(vault)
        assert before > 200
    with Vault.open(tmp_path / "vault") as vault:
        assert asked(vault) == before


def test_rows_stay_where_they_are_only_with_a_table(vault: Vault) -> None:
    with pytest.raises(tr.VaultError, match="no table of its own"):
        vault.refresh()


def test_the_constants_of_these_tests_leave_room() -> None:
    assert (EPSILON, DELTA, BETA) == (1000.0, 1e-6, 1e-9)


def test_a_vault_is_settled_when_one_of_its_mechanisms_is(tmp_path: Path) -> None:
    """A continual histogram has paid for all questions to come with the first one."""
    with guarded(tmp_path / "vault", rows=1000, share=0.5) as vault:
        vault.add("continual", 0.5)
        assert vault.settled is False
        vault.ask("late = 'yes'", "pmwg")
        assert vault.settled is False
        vault.ask("late = 'yes'", "continual")
        assert vault.settled is True
