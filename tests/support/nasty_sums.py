"""Rows of numbers whose sums are easily wrong: at steps and at the middles between them, beyond bounds, absent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

import treering as tr
from support.engines import INFINITY, NAN
from treering.domain.schema import Schema

SCHEMA = Schema(
    {
        "a": tr.categories("x", "y", other=True, missing=True),
        "cents": tr.numbers(-5, 2000, step=0.01, edges=[0, 0.3, 100]),
        "single": tr.numbers(0, 3, step=0.1, edges=[1, 2]),
        "whole": tr.numbers(-100, 100, edges=[-7, 0]),
        "huge": tr.numbers(-(2**50), 2**50, step=2**40, edges=[0, 2**49]),
        "price": tr.numbers(0, 10, step=0.05, edges=[1, 5]),
        "empty": tr.numbers(0, 1, step=0.5),
    }
)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.string(), ["x", "y", None, "z"]),
    "cents": (
        pa.float64(),
        [
            *(0.0, -0.0, 0.005, 0.015, 0.285, 0.29, 1.005, 2.675, 1999.995, 2000.0, 2000.0000000000002, -5.0, -4.995),
            *(NAN, None, INFINITY, -INFINITY, 5e-324, -5e-324, 1e308, -1e308, 0.1 + 0.2, 1e-17, 123.455),
        ],
    ),
    "single": (pa.float32(), [0.05, 0.15, 0.1, 2.95, 3.0, NAN, None, INFINITY, -INFINITY, 3e38, 1e-45, 1.25]),
    "whole": (pa.int16(), [0, -100, 100, 101, -101, None, 2**15 - 1, -(2**15), 7]),
    "huge": (
        pa.int64(),
        [
            *(0, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 2**39, 2**39 - 1, 3 * 2**39),
            *(None, -(2**39), 2**50 - 2**39),
        ],
    ),
    "price": (
        pa.decimal128(9, 3),
        [*map(Decimal, ("0.025", "0.024", "0.075", "9.975", "10.001", "-3", "4.6")), None],
    ),
    "empty": (pa.float64(), [None]),
}  # fmt: skip


def rows(number: int = 600, first: int = 10) -> pa.Table:
    """Rows that run through all values, each column at its own pace."""
    columns = {
        name: pa.array([values[(row * (1 + place)) % len(values)] for row in range(first, first + number)], kind)
        for place, (name, (kind, values)) in enumerate(VALUES.items())
    }
    return pa.table({"id": pa.array(range(first, first + number), pa.int64()), **columns})
