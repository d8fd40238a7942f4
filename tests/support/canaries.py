"""A vault in which every private number and text would be recognised wherever it came out.

Its rows are of `KINDS` kinds, each with a multiplicity of its own. The true count of *any* predicate is a sum of some of
the multiplicities, the true sum of a column likewise: `SECRETS` has them all, but for those of no row and of all rows.
Its noise is some thousand times the number of rows, so that a noisy count is none of them by chance: a count is clipped to
0 or to the size but with a probability of about rows / noise = 1e-6, and hits one of the 254 among the 240,000 possible
counts with 1e-9. Ten thousand answers with a hundred numbers each raise a false alarm with 1e-3 * 1e-6.

Among the rows are texts and a number that no schema lists: in a cell for other values, in a column that is no attribute,
and in rows that were dropped.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import treering as tr
from treering.demo.flights import CARRIERS, ORIGINS

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
KINDS = tuple(
    {
        "origin": origin,
        "carrier": carrier,
        "month": month,
        "hour": hour,
        "dep_delay": delay,
        "distance": distance,
        "cancelled": delay is None,
    }
    for origin, carrier, month, hour, delay, distance in (
        ("JFK", "UA", 1, 5, 61, 419),
        ("JFK", "AA", 2, 7, -3, 1089),
        ("EWR", "UA", 2, 8, 127, 733),
        ("LGA", "DL", 7, 12, None, 2133),
        ("EWR", "B6", 7, 17, 9, 187),
        (CANARY, "UA", 8, 17, 241, 1617),
        ("LGA", "AA", 11, 21, 17, 1391),
        ("JFK", "B6", 12, 6, 33, 2475),
    )
)
SIZE = sum(TIMES)


def rows() -> pa.Table:
    """The rows, with a column that is no attribute."""
    table = pa.Table.from_pylist(list(KINDS)).take(np.repeat(np.arange(len(KINDS)), TIMES))
    return table.append_column("note", pa.array([f"{CANARY} {place}" for place in range(table.num_rows)]))


def vault(place: Path, epsilon: float = 1e-7) -> tr.Vault:
    """A vault of these rows, whose noise is thousands of times their number."""
    made = tr.Vault.create(place, SCHEMA, epsilon, 1e-9)
    made.append(rows().select(list(SCHEMA.names)))
    return made


def _secrets() -> set[float]:
    found = set[float]()
    for size in range(1, len(KINDS)):
        for chosen in itertools.combinations(range(len(KINDS)), size):
            counts = [TIMES[each] for each in chosen]
            found.add(sum(counts))
            for column in ("dep_delay", "distance"):
                known = [(KINDS[each][column], TIMES[each]) for each in chosen if KINDS[each][column] is not None]
                if len(known) > 1:  # The average of one kind is a value of the schema's.
                    found.add(math.fsum(value * times for value, times in known))
                    found.add(math.fsum(value * times for value, times in known) / sum(times for _, times in known))
    return found


SECRETS = _secrets()
_SORTED = np.array(sorted(SECRETS))
_NUMBERS = re.compile(r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.])|(?<![\w.,-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def leaks(text: str) -> list[str]:
    """What is private in a text."""
    found = [word for word in (CANARY, CANARY.lower(), str(NUMBER_CANARY), f"{NUMBER_CANARY:,}") if word in text]
    numbers = np.array([float(each.replace(",", "")) for each in _NUMBERS.findall(text)] or [0.0])
    places = np.searchsorted(_SORTED, numbers).clip(1, len(_SORTED) - 1)
    near = np.minimum(abs(_SORTED[places] - numbers), abs(_SORTED[places - 1] - numbers))
    return [*found, *(str(each) for each in numbers[near <= 1e-9 * abs(numbers).clip(1)])]


def told(body: bytes, media_type: str) -> str:
    """A body as text: a table's every value, what JSON says as it is."""
    if media_type.startswith("application/vnd.apache.arrow"):
        table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
        return json.dumps([table.to_pylist(), str(table.schema.metadata)], default=str)
    return body.decode()


def broken_answers(made: tr.Vault) -> Iterator[Any]:
    """The true counts of the vault: what no server may tell."""
    yield from (made._counts.count(tr.parse(f"month = {month}", SCHEMA)) for month in range(1, 13))
