"""The statements that tools and people write, answered by a vault: numbers keep their margins, prices are as quoted.

Numbers of the same group that are the same, with the same margin, rest on the same noise: they are looked at once, and
more than 1,500 remain. If each were outside its margin with 5%, independently of the others, more than 8% of them were
with a probability below 1e-6; as counts are rounded, and their margins with them, it is 2% to 3% that are outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from support.corpus import SCHEMA, Asked, answered, off, pairs, table, truth
from support.exact_sql import numbers_of

LEAST = 0.92


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Vault]:
    path = Path(tmp_path_factory.mktemp("corpus")) / "flights.treering"
    with tr.Vault.create(path, SCHEMA, epsilon=10.0, delta=1e-6, beta=1e-6, name="flights") as opened:
        opened.append(table())
        yield opened


def test_numbers_keep_their_margins_and_prices_are_as_quoted(vault: tr.Vault) -> None:
    outside: dict[tuple[Any, ...], bool] = {}
    for place, asked in enumerate(answered()):
        outside |= _checked(vault, asked, paid_again=place % 10 == 0)
    assert len(outside) > 1_500
    assert 1 - sum(outside.values()) / len(outside) >= LEAST
    assert not all(outside.values())


def _checked(vault: tr.Vault, asked: Asked, *, paid_again: bool) -> dict[tuple[Any, ...], bool]:
    """The different numbers of a statement, and which are outside their margins; its prices must be right."""
    price, before = vault.price_sql(asked.sql), vault.left(vault.size)
    found = vault.sql(asked.sql)
    after = vault.left(vault.size)
    if price.exact:
        assert before - after == pytest.approx(price.most, rel=1e-9, abs=1e-15), asked
    else:  # Quantiles may take a second step.
        assert 0 < before - after <= price.most * (1 + 1e-9), asked
    assert vault.price_sql(asked.sql).most == 0, asked
    if paid_again:
        assert vault.sql(asked.sql).equals(found), asked
        assert vault.left(vault.size) == after
    return _outside(found, truth(asked))


def _outside(ours: pa.Table, theirs: pa.Table) -> dict[tuple[Any, ...], bool]:
    assert numbers_of(ours).column_names == theirs.column_names
    return {each: off(value, true, margin) for each in pairs(ours, theirs) for _, value, margin, true in [each]}


def test_explain_quotes_the_price_and_pays_nothing(vault: tr.Vault) -> None:
    text = "SELECT weekday, hour, COUNT(*) AS n FROM flights WHERE carrier = 'B6' GROUP BY weekday, hour"
    before = vault.left(vault.size)
    (plan,) = vault.sql(f"EXPLAIN {text}").to_pylist()
    assert plan["price"] == vault.price_sql(text).most > 0
    assert vault.left(vault.size) == before
