"""The public state as the page shows it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import treering as tr
from treering.service.pages.state import KEPT, Board, answered, percent, view
from treering.vault.vault import Vault

NOW = 1_800_000_000.0
"""A full minute, in seconds since 1970."""
MINUTE = int(NOW // 60)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    schema = tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})
    return Vault.create(tmp_path / "flights", schema, epsilon=1.0, delta=1e-9)


def rows(number: int) -> list[dict[str, object]]:
    return [{"origin": "JFK", "month": 1}] * number


def test_there_is_a_ring_for_each_batch_with_what_it_has_left(vault: Vault) -> None:
    board = Board(vault, dict)
    with vault:
        assert board.view(now=True)["rings"] == []
        vault.append(rows(3000))
        vault.ask("origin = 'JFK'")
        vault.append(rows(500))
        first, second = board.view(now=True)["rings"]
        assert (first.rows, second.rows) == (3000, 500)
        assert first.left == pytest.approx(vault.left(1) / vault.total)
        assert first.left < 1
        assert second.left == 1
        vault.ask("origin = 'JFK'")
        first, second = board.view(now=True)["rings"]
        assert first.left == second.left < 1


def test_batches_are_read_once_whatever_comes_between(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(vault, dict)
    with vault:
        vault.append(rows(10))
        early = vault.status()
        vault.append(rows(20))
        monkeypatch.setattr(Vault, "status", lambda _: early)  # a status that is late by one batch
        assert [ring.rows for ring in board.view(now=True)["rings"]] == [10, 20]
        monkeypatch.undo()
        vault.append(rows(30))
        assert [ring.rows for ring in board.view(now=True)["rings"]] == [10, 20, 30]


def test_a_share_that_nobody_has_counts_as_left(tmp_path: Path) -> None:
    schema = tr.Schema({"origin": tr.categories("EWR", "JFK")})
    with Vault.create(tmp_path / "flights", schema, epsilon=1.0, share=0.25) as vault:
        vault.append([{"origin": "JFK"}] * 1000)
        (ring,) = Board(vault, dict).view()["rings"]
        assert ring.left == pytest.approx(1.0)


def test_one_view_does_for_all_who_look_at_once(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    board, clock = Board(vault, dict), [100.0]
    own = SimpleNamespace(monotonic=lambda: clock[0], time=time.time)  # the vault keeps the real clock
    monkeypatch.setattr("treering.service.pages.state.time", own)
    with vault:
        assert board.view()["size"] == 0
        vault.append(rows(10))
        clock[0] += KEPT / 2
        assert board.view()["size"] == 0
        assert board.view(now=True)["size"] == 10
        vault.append(rows(10))
        clock[0] += KEPT * 1.01
        assert board.view()["size"] == 20


def test_the_mechanism_that_draws_rows_is_found(vault: Vault) -> None:
    board, chance = Board(vault, dict), np.random.default_rng(1)
    with vault:
        vault.append(rows(60_000))
        assert board.drawing(chance) is None
        vault.add("pmwg", 0.2, alpha=0.1, name="histogram")
        vault.ask("month = 1", mechanism="histogram")
        assert board.drawing(chance) == "histogram"


def test_series_have_their_margins(vault: Vault) -> None:
    with vault:
        vault.append(rows(3000))
        vault.sql("SELECT month, COUNT(*) FROM t GROUP BY month")
        status = vault.status()
        (series,) = view(status, [], {})["series"]
        assert series["attributes"] == ["month"]
        assert series["margin"] == status["mechanisms"][0]["series"][0]["margin"]
        assert series["paid"] == percent(status["spent"] / status["total"])


def test_answers_are_put_into_columns_that_end_now() -> None:
    minutes = {MINUTE: {"sql": 1}, MINUTE - 1: {"measured": 2}, MINUTE - 7: {"measured": 4, "sql": 5}}
    found = answered(minutes, NOW + 59)
    assert [dict(each.counts) for each in found] == [{"measured": 4, "sql": 5}, *[{}] * 5, {"measured": 2}, {"sql": 1}]
    assert [each.name for each in found][-2:] == ["07:59", "08:00"]
    assert answered({}, NOW) == []


@pytest.mark.parametrize("age", [0, 23, 24, 119, 120, 24 * 60 - 1, 6 * 24 * 60])
def test_old_answers_share_columns_and_none_is_lost(age: int) -> None:
    minutes = {MINUTE - age + step: {"easy": 1} for step in range(age + 1)}
    found = answered(minutes, NOW)
    assert 8 <= len(found) <= 24
    assert sum(each.counts["easy"] for each in found) == age + 1
    assert all(re.fullmatch(r"\d\d:\d\d|\d\d \w\w\w", each.name) for each in found)


def test_what_is_older_than_all_columns_is_left_out() -> None:
    found = answered({MINUTE: {"easy": 1}, MINUTE - 100 * 1440: {"easy": 7}}, NOW)
    assert sum(each.counts["easy"] for each in found) == 1


def test_what_is_not_all_is_not_shown_as_all() -> None:
    assert [percent(share) for share in (0.9999999, 0.995, 1.0)] == ["99.99%", "99.50%", "100%"]
    assert percent(1e-12) != "0%"
