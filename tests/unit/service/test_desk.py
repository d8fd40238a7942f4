"""Asking within a quota: set aside, ask, give back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treering as tr
from support.office import desk_of
from treering.answer import Bill
from treering.errors import Dearer
from treering.service.auth import Caller, Quota
from treering.service.desk import TRIES, Desk
from treering.service.problems import Problem


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    opened = desk_of(tmp_path / "v")
    yield opened
    opened.close()


def analyst(desk: Desk, **quota: Any) -> Caller:
    return Caller(desk.register.issue("ada", "analyst", None, Quota(**quota))[0])


def dearer_each_time(monkeypatch: pytest.MonkeyPatch, times: int) -> list[float]:
    """The vault finds the question dearer than was set aside, so many times; what was allowed each time."""
    allowed: list[float] = []
    ask = tr.Vault.ask_many

    def asks(
        vault: tr.Vault, queries: Any, mechanism: Any, key: Any, within: Any, bill: Bill, _: Any, **__: Any
    ) -> list[tr.Answer]:
        allowed.append(bill.most)
        if len(allowed) <= times:
            raise Dearer("rho", 1e-4 * len(allowed), bill.most)
        return ask(vault, queries, mechanism, key, within, Bill())

    monkeypatch.setattr(tr.Vault, "ask_many", asks)
    return allowed


def test_a_question_that_becomes_dearer_is_priced_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = analyst(desk, answers=9)
    allowed = dearer_each_time(monkeypatch, 3)
    desk.answers(caller, ["late = 'no'"], None, None, None)
    assert allowed == pytest.approx([0.0, 1e-4, 2e-4, 3e-4])


def test_but_not_for_ever_and_everything_is_given_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = analyst(desk, answers=9, budget=1.0)
    allowed = dearer_each_time(monkeypatch, 10**9)
    with pytest.raises(Problem) as refused:
        desk.answers(caller, ["late = 'no'"], None, None, None)
    assert (refused.value.status_code, refused.value.code) == (503, "price_changed")
    assert len(allowed) == TRIES + 1
    assert desk.register.used(caller.token.id).answers == 0
    assert desk.register.used(caller.token.id).budget == pytest.approx(0.0, abs=1e-15)


def test_who_has_no_quota_sets_nothing_aside(desk: Desk) -> None:
    caller = analyst(desk)
    _, answers, bill = desk.answers(caller, ["late = 'no'"], None, None, None)
    assert (len(answers), bill.cost > 0) == (1, True)
    assert desk.register.used(caller.token.id).answers == 0
    assert desk.left(caller) is None


def test_a_refusal_says_what_is_left(desk: Desk) -> None:
    caller = analyst(desk, answers=1, budget=0.5)
    with pytest.raises(Problem) as refused:
        desk.answers(caller, ["late = 'no'", "month = 1"], None, None, None)
    assert "of this token's quota for the week is left: 1 charged answer and 0.5 of the budget" in refused.value.detail
    assert desk.left(caller) == {"answers_left": 1, "budget_left": 0.5, "frees": None}


def test_a_desk_closes_twice(desk: Desk) -> None:
    desk.close()
    desk.close()
    with pytest.raises(tr.VaultError, match="closed"):
        desk.vault.status()
