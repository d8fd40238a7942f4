"""Lives of a table whose rows are erased and corrected: what a changed row can cost, exactly, on every small life; and
that answers are those of a table without the rows, within margins that cover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

import treering as tr
from support.charges import most_paid
from treering.gate import Advanced, SegmentBegun
from treering.mechanisms.series import findings
from treering.vault.vault import Vault

GONE = "gone"
Values: TypeAlias = tuple[str, ...]
"""What a row says in each of two times."""


# -- small lives, exactly ----------------------------------------------------------------------------------------------

SMALL = tr.Schema({"g": tr.categories("a", "b", "c")})
LEAVES = 4


def released(place: Path, delta: float, born: int, changed: int, says: Values) -> dict[int, tuple[float, list[Any]]]:
    """The noise and the releases of each segment in a life of `LEAVES` leaves, in which one row of leaf ``born`` says
    one thing, and another from leaf ``changed`` on. The noise is far below a row."""
    with Vault.create(place, SMALL, 1e14, delta, key="id") as vault:
        for leaf in range(1, LEAVES + 1):
            if leaf == changed:
                if says[1] == GONE:
                    vault.erase(keys=[born])
                else:
                    vault.correct([{"id": born, "g": says[1]}])
            others = [{"id": 100 * leaf + n, "g": "abc"[n % 3]} for n in range(5)]
            vault.append([*others, *([{"id": born, "g": says[0]}] if leaf == born else [])])
            vault.ask_many(["g = 'a'", "g = 'b'"])

        codec = vault._store._journals[0]._codec
        found: dict[int, tuple[float, list[Any]]] = {}
        for entry in vault._store.reading.lines():
            if entry.kind == "event":
                event = codec.decode(entry.body)
                if isinstance(event, SegmentBegun):
                    found[event.segment] = (event.noise.scale, [])
                elif isinstance(event, Advanced):
                    found[event.segment][1].append([np.asarray(each) for each in event.values])
        assert sum(len(each) for _, each in found.values()) == LEAVES

    return found


def loss(left: dict[int, tuple[float, list[Any]]], right: dict[int, tuple[float, list[Any]]], delta: float) -> float:
    """What all releases together tell of the difference: in zCDP, or in epsilon."""
    total = 0.0
    for number, (scale, releases) in left.items():
        for one, other in zip(releases, right[number][1], strict=True):
            for values, others in zip(one, other, strict=True):
                apart = np.abs(values - others)
                assert (apart == np.rint(apart)).all()
                total += float((apart**2).sum() / (2 * scale**2) if delta else apart.sum() / scale)
    return total


def histories(erased: bool) -> Iterator[Values]:
    yield from product("abc", [GONE] if erased else "abc")


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("erased", [True, False])
def test_no_history_of_a_row_costs_more_than_a_row_that_stays(delta: float, erased: bool, tmp_path: Path) -> None:
    """Every pair of histories of one row, in every small life: what they tell of each other is at most what the row has
    paid, and a correction reaches it: not five times as much, as it would if its old value left and its new one came at
    the next leaf."""
    most, number = 0.0, 0
    for born, changed in ((1, 2), (1, 4), (2, 3), (2, 4), (3, 4)):
        lives = []
        for says in histories(erased):
            number += 1
            lives.append(released(tmp_path / f"{number}", delta, born, changed, says))
        stays = [released(tmp_path / f"s{number}{value}", delta, born, 9, (value, value)) for value in "ab"]
        whole = loss(stays[0], stays[1], delta)
        price = paid_by_row(tmp_path / f"p{number}", delta, born)
        assert whole <= price * (1 + 1e-9)
        for one, other in product(lives, repeat=2):
            found = loss(one, other, delta)
            assert found <= whole * (1 + 1e-9)
            most = max(most, found / whole)
    assert most > 0.99


def paid_by_row(place: Path, delta: float, born: int) -> float:
    """What the row of leaf ``born`` has paid in the end, with a change of it on the way."""
    with Vault.create(place, SMALL, 1e14, delta, key="id") as vault:
        for leaf in range(1, LEAVES + 1):
            vault.append([{"id": 100 * leaf + n, "g": "abc"[n % 3]} for n in range(6)])
            vault.ask_many(["g = 'a'", "g = 'b'"])
        vault.correct([{"id": 100 * born, "g": "c"}])
        return vault.total - vault.left(6 * born - 5)


# -- long lives --------------------------------------------------------------------------------------------------------

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", "east", other=True),
        "cost": tr.numbers(0, 100, step=0.5, edges=[0, 25, 50, 75, 100]),
    }
)
QUESTIONS = ("ward = 'north'", "cost < 50", "ward = 'south' AND cost >= 25", "ward IN ('north', 'east')")
LIVES, STEPS = 50, 16
FALSE_ALARM = 1e-9


class Life:
    """A vault, and its table as it should be."""

    def __init__(self, place: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.place, self.rows, self.next = place, dict[int, tuple[str, float]](), 0
        delta = float(self.random.choice([0.0, 1e-6]))
        self.vault = Vault.create(place, SCHEMA, float(self.random.choice([1.0, 3.0])), delta, key="id")
        self.within = self.without = 0
        self.pulls: list[float] = []

    def some(self, number: int) -> dict[int, tuple[str, float]]:
        wards = self.random.choice(["north", "south", "east", "elsewhere"], number, p=[0.5, 0.3, 0.1, 0.1]).tolist()
        costs = (self.random.integers(0, 201, number) / 2).tolist()
        return dict(zip(range(self.next, self.next + number), zip(wards, costs, strict=True), strict=True))

    def listed(self, rows: dict[int, tuple[str, float]]) -> list[dict[str, Any]]:
        return [{"id": key, "ward": ward, "cost": cost} for key, (ward, cost) in rows.items()]

    def step(self) -> None:
        work = self.random.choice(["append", "ask", "erase", "correct", "reopen"], p=[0.25, 0.35, 0.15, 0.15, 0.1])
        chosen = [
            int(each) for each in self.random.choice([*self.rows], int(self.random.integers(1, 60)), replace=False)
        ]
        end = bool(self.random.random() < 0.2)
        if work == "append":
            self.append(int(self.random.integers(1, 1500)))
        elif work == "ask":
            self.ask()
        elif work == "erase":
            self.vault.erase(keys=chosen, end=end)
            for key in chosen:
                del self.rows[key]
        elif work == "correct":
            more = dict(zip(chosen, self.some(len(chosen)).values(), strict=True))
            self.vault.correct(self.listed(more), end=end)
            self.rows |= more
        else:
            self.vault.close()
            self.vault = Vault.open(self.place)

    def append(self, number: int) -> None:
        more = self.some(number)
        self.next += number
        self.vault.append(self.listed(more))
        self.rows |= more

    def ask(self) -> None:
        self.told(self.vault.ask_many(list(QUESTIONS)), self.true_counts())
        table = self.vault.sql("SELECT ward, COUNT(*) AS n, SUM(cost) AS total FROM vault GROUP BY ward")
        for ward, n, n_margin, total, total_margin in zip(*(each.to_pylist() for each in table.columns), strict=True):
            if ward in ("north", "south", "east"):
                costs = [cost for place, cost in self.rows.values() if place == ward]
                self.note(abs(n - len(costs)) <= n_margin + 0.5)
                self.note(abs(total - sum(costs)) <= total_margin + 0.5)

    def true_counts(self) -> list[int]:
        rows = list(self.rows.values())
        return [
            sum(ward == "north" for ward, _ in rows),
            sum(cost < 50 for _, cost in rows),
            sum(ward == "south" and cost >= 25 for ward, cost in rows),
            sum(ward in ("north", "east") for ward, _ in rows),
        ]

    def told(self, answers: Sequence[tr.Answer], truth: Sequence[int]) -> None:
        for answer, count in zip(answers, truth, strict=True):
            assert answer.size == len(self.rows)
            self.note(abs(answer.value * answer.size - count) <= answer.margin * answer.size)
            assert abs(answer.value * answer.size - count) <= 3 * answer.error * answer.size

    def note(self, right: bool) -> None:
        self.within += right
        self.without += not right

    def end(self) -> None:
        assert self.vault.size == len(self.rows) == self.vault.verify()["size"]
        lines = list(self.vault.ledger())
        assert most_paid(lines) <= self.vault.total * (1 + 1e-9)
        assert self.vault.spent >= most_paid(lines) * (1 - 1e-9)
        assert self.vault.status() == Vault.read(self.place).status()
        self.vault.close()


def lived(place: Path, lives: int) -> tuple[int, int]:
    within = without = 0
    for number in range(lives):
        life = Life(place / f"{number}", number)
        life.append(3000)
        for _ in range(STEPS):
            life.step()
        life.ask()
        life.end()
        within, without = within + life.within, without + life.without
    return within, without


def test_answers_are_those_of_a_table_without_the_rows(tmp_path: Path) -> None:
    """Margins cover at 95%. (Answers of one life share noise, so lives count: a life's share of misses has at most four
    times the variance that it would have if its answers were independent.)"""
    within, without = lived(tmp_path, LIVES)
    number = within + without
    assert number > 2000
    assert stats.norm.sf((without - 0.05 * number) / np.sqrt(4 * 20 * 0.05 * 0.95 * number)) > FALSE_ALARM
    assert without < 0.08 * number


def test_margins_that_are_not_wider_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: series that go on as if nothing had changed."""

    def misses() -> int:
        with Vault.create(tmp_path / f"{len(list(tmp_path.iterdir()))}", SCHEMA, 3.0, 1e-6, key="id") as vault:
            rows: npt.NDArray[np.int64] = np.arange(4000)
            vault.append([{"id": int(key), "ward": "north" if key % 2 else "south", "cost": 1.0} for key in rows])
            vault.ask("ward = 'north'")
            vault.erase(keys=rows[1:2400:2].tolist())
            answer = vault.ask("ward = 'north'")
            return int(abs(answer.value * answer.size - 800) > answer.margin * answer.size)

    assert sum(misses() for _ in range(5)) == 0
    monkeypatch.setattr(findings, "widened", lambda reading, _: reading)
    assert sum(misses() for _ in range(5)) == 5
