"""Which mechanism of a vault answers, if none is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.plans import known_answers
from support.vaults import BETA, SCHEMA, frame, mechanism, questions, states
from treering.vault.vault import Vault

LATE = "late = 'yes'"


def several(place: Path, *kinds: str, rows: int = 20_000, epsilon: float = 10.0, **options: Any) -> Vault:
    """A vault with mechanisms of these kinds, each with the same share."""
    vault = Vault.create(place, SCHEMA, epsilon, 1e-6, mechanism=None)
    for kind in kinds:
        vault.add(kind, 1 / 4, **options.get(kind, {}))
    vault.append(frame(rows))
    return vault


def answering(vault: Vault, *asked: Any, within: float | None = None) -> str:
    return vault.price_many(asked or [LATE], within=within).mechanism


def test_new_questions_go_to_rings(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "continual", "scheduler", "rings") as vault:
        assert answering(vault) == "rings"
        vault.ask(LATE)
        assert [each["spent"] > 0 for each in vault.status()["mechanisms"]] == [False, False, True]


def test_without_rings_they_go_to_the_first(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "scheduler", "continual") as vault:
        assert answering(vault) == "scheduler"


def test_what_is_known_is_answered_by_the_one_with_the_smallest_margin(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "continual", "scheduler", "rings") as vault:
        margins = {"scheduler": vault.ask(LATE, "scheduler").margin}
        assert answering(vault) == "scheduler"
        margins["continual"] = vault.ask(LATE, "continual").margin
        assert margins["continual"] < margins["scheduler"]
        assert answering(vault) == "continual"
        margins["rings"] = vault.ask(LATE, "rings", within=margins["continual"] / 4).margin
        assert answering(vault) == "rings"
        before = vault.spent
        assert vault.ask(LATE).margin == min(margins.values())
        assert answering(vault, "month = 1") == "continual"  # which knows all cells
        assert vault.ask("month = 1").margin > 0
        assert vault.spent == before


def test_a_batch_is_as_wide_as_its_widest(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "continual", "rings") as vault:
        vault.ask(LATE, "continual")
        vault.ask(LATE, "rings", within=10)
        vault.ask("month = 1", "rings", within=2000)
        assert answering(vault, LATE) == "rings"
        assert answering(vault, LATE, "month = 1") == "continual"


def test_the_named_one_answers(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "continual", "scheduler", "rings") as vault:
        for name in ("continual", "scheduler", "rings"):
            assert vault.price_many([LATE], name).mechanism == name
        with pytest.raises(tr.ParameterError, match="'pmwg' is not in this vault; there are: continual, scheduler, ri"):
            vault.ask(LATE, "pmwg")


def test_a_wish_is_met_by_who_knows_it_or_else_by_the_cheapest(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "pmwg", "continual", "rings", pmwg={"alpha": 0.2, "beta": BETA}) as vault:
        # Nothing is known yet, and a histogram of all cells would cost all it has: rings are cheaper.
        assert answering(vault, within=500) == "rings"
        wide = vault.ask(LATE, "continual").count_margin
        # It knows the answer well enough, or not.
        spent = vault.spent
        assert answering(vault, within=wide + 1) == "continual"
        assert vault.ask(LATE, within=wide + 1).count_margin == wide
        assert vault.spent == spent
        assert answering(vault, within=wide / 3) == "rings"
        assert vault.ask(LATE, within=wide / 3).margin * vault.size <= wide / 3 * (1 + 1e-4)
        # Both know it now: the sharper one answers.
        assert answering(vault, within=wide + 1) == "rings"
        # New rows: those of the histogram have paid for all that is asked of it.
        vault.append(frame(5000, seed=2))
        assert answering(vault, "month = 1", within=4000) == "continual"
        assert vault.price("month = 1", within=4000) == 0
        with pytest.raises(
            tr.ParameterError, match=r"within asks for a margin of 5 rows, which .* here, but one of \d+ row"
        ):
            vault.ask(LATE, "continual", within=5)
        with pytest.raises(tr.ParameterError, match="within") as told:
            vault.ask("month = 2", "pmwg", within=50)
        assert told.value.parameter == "within"


def test_margins_that_are_promised_are_those_that_come(tmp_path: Path) -> None:
    """So a wish that a histogram is chosen for is met: before its first answer, and after rows have come."""
    with several(tmp_path / "vault", "continual") as vault:
        for day in range(20):
            query = tr.parse("month <= 3" if day % 2 else LATE, SCHEMA)
            promised = mechanism(vault)._prospect([query])
            answer = vault.ask(query, within=promised * vault.size)
            assert answer.margin == pytest.approx(promised, rel=1e-9)
            vault.append(frame(300, seed=day))


@pytest.mark.parametrize("kinds", [["continual"], ["scheduler", "continual"], ["pmwg"]])
def test_a_wish_that_nobody_can_meet_is_refused(kinds: list[str], tmp_path: Path) -> None:
    with several(tmp_path / "vault", *kinds) as vault:
        for use in (vault.ask, vault.price):
            with pytest.raises(tr.ParameterError, match="leave it out, or ask a mechanism of kind 'rings'"):
                use(LATE, within=1)
        assert vault.spent == 0


@pytest.mark.parametrize("within", [0, -1, 0.0, float("nan"), float("inf"), 20_001, True, "5"])
@pytest.mark.parametrize("kinds", [["continual"], ["rings"], ["pmwg", "rings"]])
def test_a_wish_that_makes_no_sense_is_refused_by_all(kinds: list[str], within: Any, tmp_path: Path) -> None:
    with several(tmp_path / "vault", *kinds) as vault:
        for use in (vault.ask, vault.price):
            with pytest.raises(tr.ParameterError, match="within must be"):
                use(LATE, within=within)
        assert vault.spent == 0


def test_an_empty_vault_says_that_it_is_empty(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "continual", "rings", rows=0) as vault:
        for use in (vault.ask, vault.price):
            with pytest.raises(tr.GuaranteeError, match="empty"):
                use(LATE)
        assert vault.ask_many([]) == []


GUARD = {"alpha": 0.1, "beta": BETA, "measure_first": False}


def test_choosing_asks_nothing(tmp_path: Path) -> None:
    """A run that is paid for would answer for nothing, and a comparison might end it: neither a price nor a choice may
    make one."""
    with several(tmp_path / "vault", "pmwg", "rings", "continual", epsilon=1000.0, pmwg=GUARD) as vault:
        vault.ask_many(questions(20), "pmwg")
        assert mechanism(vault).state[0].run is not None
        fresh = next(query for query in questions(99, seed=5) if known_answers(mechanism(vault), [query]) is None)
        before, lines = states(vault), vault.status()["entries"]
        assert vault.price(fresh) == 0
        assert answering(vault, fresh) == "pmwg"
        assert answering(vault, fresh, LATE) == "rings"
        assert (states(vault), vault.status()["entries"]) == (before, lines)
        vault.ask(fresh, "rings")
        assert states(vault)[0] == before[0]
        assert answering(vault, fresh) == "rings"
        vault.ask(fresh)
        assert states(vault)[0] == before[0]


def test_one_that_cannot_answer_is_passed_over(tmp_path: Path) -> None:
    queries = ["late = 'no'"]
    with several(tmp_path / "vault", "scheduler", "rings", scheduler={"box": "answers", "queries": queries}) as vault:
        vault.ask(queries[0], "scheduler")
        assert answering(vault, queries[0]) == "scheduler"
        assert answering(vault, "month = 2") == "rings"
        vault.ask("month = 2")
        vault.add("pmwg", 1 / 4, alpha=1e-6)
        assert answering(vault, "month = 2") == "rings"
        assert answering(vault, "month >= 0") == "rings"  # every row: known to all, and exactly


def test_where_rings_have_nothing_left_another_answers(tmp_path: Path) -> None:
    with several(tmp_path / "vault", "rings", "continual", rows=2000, epsilon=0.5) as vault:
        low, high = 1.0, 2000.0
        while high - low > 1e-9 * low:
            middle = (low + high) / 2
            try:
                vault.price(LATE, "rings", within=middle)
                high = middle
            except tr.BudgetExceeded:
                low = middle
        vault.ask(LATE, within=high)
        assert answering(vault, LATE) == "rings"
        assert answering(vault, "month = 1") == "continual"
        with pytest.raises(tr.GuaranteeError, match="with what is left of epsilon"):
            vault.ask("month = 1", "rings")
        vault.ask("month = 1")
