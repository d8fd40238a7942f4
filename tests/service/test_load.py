"""`make load` in short: many analysts at once, and a server that is killed among them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

import treering as tr
from benchmarks import load
from benchmarks.load import BrokenPromiseError, Seen, killed_under_load, make, reconcile, serving, under_load, warm
from treering.answer import Bill


def test_nothing_is_lost_or_charged_twice_under_load(tmp_path: Path) -> None:
    found = under_load(tmp_path / "v", analysts=200, seconds=5)
    assert found["answers"] > 200
    assert found["requests"] > found["answers"]
    assert found["charges"] >= 20


def test_nothing_received_is_lost_and_nothing_charged_twice_when_a_server_is_killed(tmp_path: Path) -> None:
    found = killed_under_load(tmp_path / "v", analysts=100, seconds=2)
    assert found["answers before"] > 1
    assert found["without a reply"] > 0
    assert found["answers after"] > found["answers before"] + found["without a reply"]


def test_what_does_not_agree_with_the_ledger_is_seen(tmp_path: Path) -> None:
    tokens, _ = make(tmp_path / "v", 1)
    seen = Seen()
    with serving(tmp_path / "v") as running:
        asyncio.run(warm(running, tokens[0], seen, "one"))
    assert reconcile(tmp_path / "v", seen, killed=False)["charges"] > 0
    (name,) = seen.answers
    other = [tr.Answer(0.5, 0.1, 1000, "measured")]
    wrong = {
        "answers that are not on record": Seen({**seen.answers, "nobody:2": other}, seen.cost),
        "answers on record that nobody received": Seen({}, seen.cost),
        "charged but not told": Seen(seen.answers, seen.cost / 2),
        "told but not charged": Seen(seen.answers, seen.cost * 2),
        "rows that were lost": Seen(seen.answers, seen.cost, size=10**6),
        "errors": Seen(seen.answers, seen.cost, errors=Counter({"500": 1})),
    }
    for words, each in wrong.items():
        with pytest.raises(BrokenPromiseError, match=words):
            reconcile(tmp_path / "v", each, killed=False)
    with pytest.raises(BrokenPromiseError, match="not on record"):
        reconcile(tmp_path / "v", Seen({name: other}, seen.cost), killed=True)


def test_a_release_made_twice_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, _ = make(tmp_path / "v", 1)
    seen = Seen()
    with serving(tmp_path / "v") as running:
        asyncio.run(warm(running, tokens[0], seen, "one"))
    lines = list(tr.Vault.read(tmp_path / "v").ledger())
    twice = next(line for line in lines if line["kind"] == "Advanced")

    class Doubled:
        def ledger(self) -> list[object]:
            return [*lines, twice]

    monkeypatch.setattr(tr.Vault, "read", lambda _: Doubled())
    with pytest.raises(BrokenPromiseError, match="releases made twice"):
        reconcile(tmp_path / "v", seen, killed=True)


def test_what_replies_call_their_cost_is_what_the_ledger_says_that_the_newest_rows_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the end of a segment of 16 leaves (2^20 in truth), whose last leaf gets something back."""
    monkeypatch.setattr("treering.theory.series.LONGEST", 16)
    told = 0.0
    with tr.Vault.create(tmp_path / "v", load.SCHEMA, 4.0, 1e-6) as vault:
        vault.append(load.table(5_000, 0))
        for number in range(20):
            bill = Bill()
            vault.ask_many(["a = 1"], bill=bill)
            told += bill.cost
            vault.append(load.table(50, number))
        lines = list(vault.ledger())
    assert load.paid_by_newest(lines) == pytest.approx(told, rel=1e-9)
    assert sum(line["cost"] for line in lines) > 1.001 * told
