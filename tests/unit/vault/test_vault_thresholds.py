"""Thresholds that no edge was declared for: asked, paid for once, free afterwards, and after the vault was opened."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering as tr

SCHEMA = tr.Schema(
    {
        "amount": tr.numbers(0, 1000, step=0.5, edges=[0, 100, 500, 1000]),
        "kind": tr.categories("a", "b", other=True),
    }
)
ROWS = [{"amount": each % 1000 / 2, "kind": "ab"[each % 2]} for each in range(4000)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with tr.Vault.create(tmp_path / "shop", SCHEMA, epsilon=20.0, delta=1e-6, share=0.7) as vault:
        vault.append(ROWS)
    return tmp_path / "shop"


def truth(low: float, high: float) -> int:
    return sum(low <= row["amount"] < high for row in ROWS if isinstance(row["amount"], float))


def test_a_threshold_is_paid_for_once_and_known_after_opening(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        assert vault.price("amount < 37.5") > 0
        first = vault.ask("amount < 37.5", key="k")
        assert abs(first.count - truth(0, 37.5)) <= first.count_error
        spent = vault.spent
        assert vault.price("amount >= 37.5") == 0
        table = vault.sql("SELECT kind, COUNT(*) AS n FROM shop WHERE amount BETWEEN 50 AND 62.5 GROUP BY kind")
        assert table.num_rows == 2
        assert vault.spent > spent
    with tr.Vault.open(place) as vault:
        assert vault.ask("amount < 37.5") == first
        assert vault.ask("amount < 37.5", key="k") == first
        assert vault.price("NOT amount < 37.5") == 0
        assert vault.verify()["size"] == len(ROWS)
        vault.append(ROWS[:100])
        assert vault.price("amount < 37.5") > 0  # New rows pay.
        assert vault.ask("amount < 37.5").size == len(ROWS) + 100


def test_a_query_through_a_lens_is_asked_like_its_text(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        query = tr.parse("amount < 12.25", vault.schema, finer=True)
        assert vault.ask(query) == vault.ask("amount < 12.25")
        batch = vault.ask_many(["amount < 12.25", "amount > 700.5", "kind = 'a'"])
        assert [each.size for each in batch] == [4000] * 3


def test_a_mechanism_of_cells_says_which_bounds_it_knows(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        vault.add("continual", 0.2)
        spent = vault.spent
        with pytest.raises(tr.QueryError, match="the nearest bin edges are 0 and 100"):
            vault.ask("amount < 37.5", mechanism="continual")
        query = tr.parse("amount < 37.5", vault.schema, finer=True)
        with pytest.raises(tr.QueryError, match="a mechanism of kind 'rings' answers it"):
            vault.ask(query, mechanism="continual")
        assert vault.spent == spent
        assert vault.ask("amount < 37.5").kind == "measured"


def test_sums_and_quantiles_of_rows_beyond_a_threshold(place: Path) -> None:
    with tr.Vault.open(place) as vault:
        text = "SELECT SUM(amount) AS total, AVG(amount) AS mean, MEDIAN(amount) AS half FROM shop WHERE amount > 30.25"
        (row,) = vault.sql(text).to_pylist()
    kept = [each["amount"] for each in ROWS if isinstance(each["amount"], float) and each["amount"] > 30.25]
    assert abs(row["total"] - sum(kept)) <= 3 * row["total_margin"]
    assert abs(row["mean"] - sum(kept) / len(kept)) <= 3 * row["mean_margin"]
    assert row["half"] - row["half_margin"] <= sorted(kept)[len(kept) // 2] <= row["half"] + row["half_margin"]
