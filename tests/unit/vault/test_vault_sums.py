"""A vault with numbers: values survive closing, copies and checks; releases are durable, keyed and priced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treering as tr
from support.cli import treering
from support.parts import in_order, make_often
from treering.domain.language.measures import Count, Mean, Quantile, Request, Sum
from treering.vault.vault import Vault

SCHEMA = tr.Schema(
    {"a": tr.categories("x", "y"), "fare": tr.numbers(0, 100, step=0.5, edges=[0, 25, 50, 100]), "k": tr.integers(0, 9)}
)
REQUEST = Request.of(SCHEMA, [Count(), Sum("fare"), Mean("fare"), Mean("k"), Quantile("fare", 0.5)], ["a"])


def rows(number: int = 5_000, seed: int = 1) -> pa.Table:
    generator = np.random.default_rng(seed)
    fare = pa.array(generator.gamma(2, 15, number), mask=generator.random(number) < 0.1)
    return pa.table({"a": generator.choice(["x", "y"], number), "fare": fare, "k": generator.integers(0, 10, number)})


def made(path: Path, **options: Any) -> Vault:
    return tr.Vault.create(path, SCHEMA, **{"epsilon": 10.0, "delta": 1e-6, "beta": 1e-9, **options})


def content(vault: Vault) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = in_order(vault).to_pylist()
    return rows


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_release_is_the_same_after_closing_and_goes_on(tmp_path: Path, delta: float) -> None:
    with made(tmp_path / "vault", delta=delta) as vault:
        vault.append(rows())
        vault.release(REQUEST)
        vault.append(rows(3_000, 2))
        said, kept = vault.release(REQUEST), content(vault)
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert content(vault) == kept
        assert vault.quote(REQUEST).most == 0
        assert vault.release(REQUEST) == said
        vault.append(rows(1_000, 3))
        later = vault.release(REQUEST)
        assert later.size == 9_000
        table = pa.concat_tables([rows(), rows(3_000, 2), rows(1_000, 3)]).to_pandas()
        values = np.clip(table[table["a"] == "y"]["fare"].dropna().to_numpy(), 0, 100)
        assert later.rows[1][2].value == pytest.approx(
            np.mean(np.floor(values / 0.5 + 0.5) * 0.5), abs=0.5 if delta else 5
        )
        assert vault.verify()["batches"] == 3


def test_values_are_kept_as_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_often(monkeypatch)
    with made(tmp_path / "vault") as vault:
        for seed in range(4):
            vault.append(rows(50 * (seed + 1), seed))
        kept = content(vault)
        fares = [row["fare:number"] for row in kept]
        assert fares == pa.concat_tables([rows(50 * (seed + 1), seed) for seed in range(4)]).column("fare").to_pylist()
        vault.verify()
    for part in (tmp_path / "vault" / "parts").glob("*.parquet"):
        assert pq.read_table(part).column_names == ["a:text", "fare:number", "k:integer"]
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert content(vault) == kept


def test_a_key_gives_the_recorded_release_and_only_that(tmp_path: Path) -> None:
    with made(tmp_path / "vault") as vault:
        vault.append(rows())
        said = vault.release(REQUEST, key="monday")
        vault.append(rows(100, 9))
        spent = vault.spent
    with tr.Vault.open(tmp_path / "vault") as vault:
        assert vault.release(REQUEST, key="monday") == said
        assert vault.spent == spent
        with pytest.raises(tr.ParameterError, match="used for something else"):
            vault.release(Request.of(SCHEMA, [Count()]), key="monday")
        with pytest.raises(tr.ParameterError, match="used for something else"):
            vault.ask("a = 'x'", key="monday")
        vault.ask("a = 'x'", key="tuesday")
        with pytest.raises(tr.ParameterError, match="used for something else"):
            vault.release(REQUEST, key="tuesday")


def test_ends_without_bounds_survive_the_ledger(tmp_path: Path) -> None:
    schema = tr.Schema({"b": tr.bins([0, 1], other=True)})
    request = Request.of(schema, [Quantile("b", 0.5)])
    with tr.Vault.create(tmp_path / "vault", schema, epsilon=100.0, delta=1e-6) as vault:
        vault.append([{"b": 5.0}] * 1000)
        said = vault.release(request, key="k")
        assert said.rows[0][0].high == float("inf")
        assert vault.release(request, key="k") == said


def test_a_quote_is_the_price_and_costs_nothing(tmp_path: Path) -> None:
    with made(tmp_path / "vault", epsilon=1.0) as vault:
        vault.append(rows(20_000))
        quoted = vault.quote(REQUEST)
        assert (quoted.mechanism, vault.spent) == ("rings", 0.0)
        vault.release(REQUEST)
        assert vault.spent == pytest.approx(quoted.most, rel=1e-9)


def test_only_rings_keep_sums(tmp_path: Path) -> None:
    with made(tmp_path / "vault", mechanism="continual", share=0.5) as vault:
        vault.append(rows())
        for use in (vault.release, vault.quote):
            with pytest.raises(tr.ParameterError, match="must be of kind 'rings'"):
                use(REQUEST)
            with pytest.raises(tr.ParameterError, match="must be of kind 'rings'"):
                use(REQUEST, mechanism="continual")
            with pytest.raises(tr.ParameterError, match="'nobody' is not in this vault"):
                use(REQUEST, mechanism="nobody")
        vault.add("rings", 0.5)
        assert vault.release(REQUEST).size == 5_000


def test_the_command_line_answers_sums(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    with made(path) as vault:
        vault.append(rows())
    sql = "SELECT a, COUNT(*) AS n, AVG(fare), SUM(fare), MEDIAN(fare), MAX(fare) FROM t GROUP BY a"
    price = treering("ask", str(path), "--sql", sql, "--dry-run", "--json").json
    assert (price["exact"], price["mechanism"]) == (False, "rings")  # Quantiles may take a second step.
    found = treering("ask", str(path), "--sql", sql, "--json").json
    assert 0 < found["cost"] <= price["most"] * (1 + 1e-9)
    names = ("n", "avg(fare)", "sum(fare)", "median(fare)", "max(fare)")
    assert found["columns"] == ["a", *(each for name in names for each in (name, f"{name}_margin"))]
    assert found["rows"][0][0] == "x"
    assert abs(found["rows"][0][3] - 30) < 5
    assert "Free;" in treering("ask", str(path), "--sql", sql).out
