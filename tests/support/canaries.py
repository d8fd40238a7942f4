"""A vault in which a private number or text would be recognised wherever it came out.

Its rows are of eight kinds, each with a multiplicity of its own. The true count of *any* predicate is a sum of some of
the multiplicities, and the true sum of a column likewise: `SECRETS` has them all, but for those of no row and of all.
No public number of the tests that use it is among them: one in a refusal, a header or a log is a leak.

A noisy count can be one of them by chance, which is no leak. Its noise is thousands of rows (the promise is that
small), so a given noisy count is the true one with a probability below `CHANCE`, and one of the 254 secret counts, of
240,000 possible ones, with a few in a thousand.

Among the rows are texts that no schema lists, in a cell for other values; `UNFIT` are rows that are refused or dropped.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import treering as tr
from treering.demo.flights import CARRIERS, ORIGINS
from treering.domain.groups import Groups

CANARY = "Kanarienvogel"
NUMBER_CANARY = 70_300_907
SCHEMA = tr.Schema(
    {
        "origin": tr.categories(*ORIGINS, other=True),
        "carrier": tr.categories(*CARRIERS),
        "month": tr.integers(1, 12),
        "hour": tr.integers(0, 23),
        "dep_delay": tr.numbers(-100, 1400, step=1, edges=[0, 15, 60, 240]),
        "distance": tr.numbers(0, 5000, step=1, edges=[250, 500, 1000, 1500, 2500]),
        "cancelled": tr.categories(False, True),
    }
)
TIMES = (17_203, 21_589, 26_347, 30_113, 34_819, 38_287, 41_621, 29_917)
"""How many rows there are of each kind: primes, whose sums are all different."""
KINDS: tuple[dict[str, Any], ...] = tuple(
    {
        "origin": origin,
        "carrier": carrier,
        "month": month,
        "hour": hour,
        "dep_delay": delay,
        "distance": distance,
        "cancelled": hour == 12,
    }
    for origin, carrier, month, hour, delay, distance in (
        ("JFK", "UA", 1, 5, 61, 419),
        ("JFK", "AA", 2, 7, -3, 1089),
        ("EWR", "UA", 2, 8, 127, 733),
        ("LGA", "DL", 7, 12, 311, 2133),
        ("EWR", "B6", 7, 17, 9, 187),
        (CANARY, "UA", 8, 17, 241, 1617),
        ("LGA", "AA", 11, 21, 17, 1391),
        ("JFK", "B6", 12, 6, 33, 2475),
    )
)
SIZE = sum(TIMES)
UNFIT = (
    "origin,carrier,month,hour,dep_delay,distance,cancelled,note\n"
    f"JFK,UA,{NUMBER_CANARY},5,61,419,false,{CANARY}\n"
    f"JFK,{CANARY},3,5,61,419,false,nothing\n"
)
"""Rows that do not fit the schema."""

EPSILON = 0.003
"""The promise: with it the first answers are within some thousand rows, and the later ones within far more."""
CHANCE = 1e-4
"""At least the probability with which a noisy count is the true one: 0.4 / deviation."""


def vault(place: Path) -> tr.Vault:
    """A vault of these rows."""
    made = tr.Vault.create(place, SCHEMA, EPSILON, 1e-9)
    made.append(pa.Table.from_pylist(list(KINDS)).take(np.repeat(np.arange(len(KINDS)), TIMES)))
    return made


def true_count(made: tr.Vault, query: tr.Query) -> int:
    """How many rows match: what no server may tell."""
    rows = made._store._rows
    if query.constant:
        return int(query.weights()) * rows.size
    groups = Groups.pair(query)
    reduced = groups.reduced(query, groups.classes)
    assert reduced is not None
    _, place, number = rows.tally(groups, (0, rows.size))
    return int(number[reduced.weights().reshape(-1)[place] > 0].sum())


def _sums(chosen: Sequence[int], column: str) -> list[float]:
    """The true sum and average of a column. (The average of one kind is a value, and may be a public number.)"""
    total = math.fsum(KINDS[each][column] * TIMES[each] for each in chosen)
    return [total, total / sum(TIMES[each] for each in chosen)] if len(chosen) > 1 else [total]


def _secrets() -> set[float]:
    sizes = range(1, len(KINDS))
    subsets = [each for size in sizes for each in itertools.combinations(range(len(KINDS)), size)]
    counts = {float(sum(TIMES[each] for each in chosen)) for chosen in subsets}
    return counts | {each for chosen in subsets for name in ("dep_delay", "distance") for each in _sums(chosen, name)}


SECRETS = _secrets()
_SORTED = np.array(sorted(SECRETS))
_WORDS = (CANARY, CANARY.lower(), CANARY.upper(), str(NUMBER_CANARY), f"{NUMBER_CANARY:,}")
_NUMBERS = re.compile(
    r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w]|\.\d)|(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w]|\.\d)"
)
"""Numbers as people and JSON write them; not the digits of a hash or of an address."""


def words(text: str) -> list[str]:
    """The private texts in a text."""
    return [word for word in _WORDS if word in text]


def numbers(text: str) -> list[float]:
    """The numbers in a text."""
    found = (float(each.replace(",", "")) for each in _NUMBERS.findall(text))
    return [each for each in found if math.isfinite(each)]


def secret(found: Sequence[float]) -> list[float]:
    """Those of some numbers that are private ones."""
    if not found:
        return []
    given = np.array(found)
    places = np.searchsorted(_SORTED, given).clip(1, len(_SORTED) - 1)
    off = np.minimum(abs(_SORTED[places] - given), abs(_SORTED[places - 1] - given))
    return [float(each) for each in given[off <= 1e-9 * abs(given).clip(1)]]


def leaks(text: str) -> list[Any]:
    """What is private in a text without noisy numbers."""
    return [*words(text), *secret(numbers(text))]


def text_of(body: bytes, media_type: str) -> str:
    """A body as text; of an Arrow table, every value."""
    if media_type.startswith("application/vnd.apache.arrow"):
        table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
        return json.dumps([table.to_pylist(), str(table.schema.metadata)], default=str)
    return body.decode()
