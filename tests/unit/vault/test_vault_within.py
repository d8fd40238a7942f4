"""Rings in a vault: margins that are wished for, what they cost, keys, and what readers see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.vaults import BETA, SCHEMA, crash, frame, mechanism, questions, states
from treering.vault.vault import Vault

LATE = "late = 'yes'"
ROWS = 20_000


def ringed(place: Path, rows: int = ROWS, **options: Any) -> Vault:
    vault = Vault.create(place, SCHEMA, **{"epsilon": 1.0, "delta": 1e-6, "beta": BETA, **options})
    if rows:
        vault.append(frame(rows))
    return vault


# -- wishes and prices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("within", [None, 200, 0.01, 4000.0])
def test_the_price_is_what_is_charged(within: float | None, delta: float, tmp_path: Path) -> None:
    with ringed(tmp_path / "vault", delta=delta) as vault:
        for asked in ([LATE], ["month = 1", "month <= 6"], [LATE], questions(10)):
            price = vault.price_many(asked, within=within)
            assert price.remaining == pytest.approx(vault.total - vault.spent)
            before = vault.spent
            vault.ask_many(asked, within=within)
            assert vault.spent - before == pytest.approx(price.most, rel=1e-9, abs=1e-15)
            assert vault.price_many(asked, within=within).most == 0


def test_new_rows_pay_the_price_of_what_is_kept_current(tmp_path: Path) -> None:
    with ringed(tmp_path / "vault") as vault:
        vault.ask(LATE, within=0.5)
        first = vault.spent
        vault.ask("month = 1", within=mechanism_best(vault))
        oldest = vault.left(1)
        vault.append(frame(ROWS, seed=2))
        price = vault.price("month = 1")
        assert price > oldest  # The oldest rows could not pay it, and need not.
        whole = vault.left(2 * ROWS)
        spent = vault.spent
        vault.ask("month = 1")
        assert vault.left(2 * ROWS) == pytest.approx(whole - price, rel=1e-9)
        assert (vault.left(1), vault.spent) == (oldest, spent)
        assert vault.left(2 * ROWS + 1) == vault.total
        assert first < spent


def mechanism_best(vault: Vault) -> float:
    """A margin that takes nearly all that is left."""
    low, high = 1.0, 2000.0
    for _ in range(40):
        middle = (low + high) / 2
        try:
            vault.price("month = 1", within=middle)
            high = middle
        except tr.BudgetExceeded:
            low = middle
    return high


@pytest.mark.parametrize("within", [0, -1, float("nan"), float("inf"), "200", True, ROWS + 1])
def test_a_wish_that_makes_no_sense_is_refused_for_free(within: Any, tmp_path: Path) -> None:
    with ringed(tmp_path / "vault") as vault:
        for use in (vault.ask, vault.price):
            with pytest.raises(tr.ParameterError, match="within must be") as told:
                use(LATE, within=within)
            assert told.value.parameter == "within"
        assert (vault.spent, vault.status()["entries"]) == (0, 3)


def test_a_wish_that_costs_too_much_is_refused_for_free(tmp_path: Path) -> None:
    with ringed(tmp_path / "vault") as vault:
        with pytest.raises(tr.BudgetExceeded, match="a margin of [0-9,]+ rows can be had instead of 1,"):
            vault.ask(LATE, within=1)
        assert vault.spent == 0


def test_answers_are_as_sharp_as_was_wished(tmp_path: Path) -> None:
    with ringed(tmp_path / "vault") as vault:
        for within in (2000, 500, 100, 0.1):
            for answer in vault.ask_many([LATE, "month = 1"], within=within):
                rows = within if within >= 1 else within * ROWS
                assert answer.margin * ROWS <= rows * (1 + 1e-6) + 1e-4
                assert answer.margin <= answer.error


def test_rings_that_have_spent_all_still_know_what_they_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ringed(tmp_path / "vault", delta=0.0) as vault:
        rings = mechanism(vault)
        policy = rings._policy
        monkeypatch.setattr(policy, "_price", lambda *_: policy._least_left)  # a wish that takes exactly what is left
        first = vault.ask(LATE, within=5000)
        assert vault.spent == vault.total
        assert vault.ask(LATE) == first
        with pytest.raises(tr.BudgetExceeded):
            vault.ask("month = 1")
        assert vault.status()["guarantee"]["statement"].startswith("none yet")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_recorded_answer_comes_back_whole_after_a_restart(tmp_path: Path) -> None:
    with ringed(tmp_path / "vault", share=0.5) as vault:
        first = vault.ask(LATE, key="monday", within=100)
        assert first.margin < first.error
        spent = vault.spent
        assert vault.ask(LATE, key="monday") == first
        vault.add("continual", 0.5)
        vault.append(frame(ROWS, seed=2))
        vault.ask("month = 1", "continual")  # It knows all about the question now, and more.
        assert vault.ask(LATE, key="monday") == first
        crash(vault)
    with Vault.open(tmp_path / "vault") as vault:
        spent = vault.spent
        assert vault.ask(LATE, key="monday") == first
        assert vault.ask(LATE, "rings", key="monday") == first
        assert vault.ask(LATE, key="monday", within=1) == first
        assert vault.spent == spent
        for question, mechanism in ((LATE, "continual"), ("month = 1", None)):
            with pytest.raises(tr.ParameterError, match="'monday' was used for something else"):
                vault.ask(question, mechanism, key="monday")


def test_a_key_of_rows_is_for_no_question(tmp_path: Path) -> None:
    for name, kind in (("none", None), ("rings", "auto")):
        with ringed(tmp_path / name, mechanism=kind, rows=0) as vault:
            vault.append(frame(ROWS), key="monday")
            with pytest.raises(tr.ParameterError, match="'monday' was used for something else"):
                vault.ask(LATE, key="monday")


# -- what everyone may see ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_writer_and_reader_say_the_same(delta: float, tmp_path: Path) -> None:
    with ringed(tmp_path / "vault", delta=delta) as vault:
        vault.ask(LATE)
        vault.ask_many(["month = 1", "month = 2"])
        vault.append(frame(ROWS, seed=2))
        vault.ask(LATE)
        status = vault.status()
        assert Vault.read(tmp_path / "vault").status() == status
        (rings,) = status["mechanisms"]
        first, second = rings["series"]
        assert (first["attributes"], first["groups"], first["answers"], first["size"]) == (["late"], 2, 2, 2 * ROWS)
        assert (second["attributes"], second["groups"], second["answers"], second["size"]) == (["month"], 12, 1, ROWS)
        assert 0 < first["margin"] < ROWS
        paid = [one["price"] for one in rings["series"]]
        left = rings["left"]
        assert left["oldest"] == pytest.approx(vault.total - sum(paid), rel=1e-9) == pytest.approx(vault.left(1))
        assert left["newest"] == pytest.approx(vault.total - paid[0], rel=1e-9)
        assert left["next"] == vault.total
        assert status["spent"] == pytest.approx(sum(paid), rel=1e-9)
        assert vault.verify()["spent"] == status["spent"]
        before = states(vault)
    with Vault.open(tmp_path / "vault") as vault:
        assert states(vault) == before
        assert vault.price(LATE) == 0
        assert vault.price("month = 1") == pytest.approx(paid[1])
        assert isinstance(mechanism(vault), tr.Rings)


def test_a_new_vault_has_a_status(tmp_path: Path) -> None:
    with ringed(tmp_path / "vault", rows=0) as vault:
        (rings,) = vault.status()["mechanisms"]
        assert (rings["series"], set(rings["left"].values())) == ([], {vault.total})
        assert rings["guarantee"]["statement"].startswith("none yet")
        with pytest.raises(tr.ParameterError, match="position"):
            vault.left(0)
