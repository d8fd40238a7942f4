"""A shop whose products come and go: discovery finds all that enough orders have, and nothing that one order has.

False alarms: a value with twice the threshold is missed, and one with a single row told, with at most δ′ = 1e-8 each.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import treering as tr
from treering.budget.threshold import threshold

WEEKS, ORDERS = 60, 100_000


def orders() -> list[pa.Table]:
    """A table for each week: five products from the start, three more a quarter, and a few orders of their own."""
    random = np.random.default_rng(7)
    weeks = []
    for week in range(WEEKS):
        known = [f"product {number}" for number in range(5 + 3 * (week // 13))]
        weights = 0.7 ** np.arange(len(known))
        names = random.choice(known, ORDERS // WEEKS, p=weights / weights.sum()).astype(object)
        names[:3] = [f"made for {week}.{each}" for each in range(3)]
        weeks.append(pa.table({"product": pa.array(names, pa.string()), "price": random.lognormal(3, 1, len(names))}))
    return weeks


def test_a_shop_finds_what_many_buy_and_nothing_that_one_order_has(tmp_path: Path) -> None:
    schema = tr.Schema(
        {
            "product": tr.categories(*(f"product {number}" for number in range(5)), other=True),
            "price": tr.numbers(0, 500),
        }
    )
    weeks = orders()
    with tr.Vault.create(tmp_path / "shop", schema, 1.0, 1e-6, discoveries=True) as shop:
        start, seen = 0, 0
        for week, table in enumerate(weeks, start=1):
            shop.append(table)
            if week % 12:
                continue
            counts = Counter(pa.concat_tables(weeks[week - 12 : week])["product"].to_pylist())
            found = dict(zip(*(shop.discover("product", 0.1, rows=(start, shop.size)).columns[:2]), strict=True))
            told = {value.as_py(): count.as_py() for value, count in found.items()}
            scale = (1 / (0.1 * shop.total)) ** 0.5
            enough = 2 * threshold(scale, shop.promise.failure / 10)
            listed = set(shop.schema.attributes["product"].to_dict()["values"])
            assert {value for value, count in counts.items() if count >= enough} - listed <= told.keys()
            assert not any(value.startswith("made for") for value in told)
            assert all(abs(count - counts[value]) < 8 * scale for value, count in told.items())
            if told:
                shop.refine(add={"product": sorted(told)})
            start, seen = shop.size, seen + len(told)
        assert seen >= 6
        assert abs(shop.left(1) / shop.total - 0.9) < 1e-6
        assert abs(shop.left(shop.size) / shop.total - 0.9) < 1e-6
