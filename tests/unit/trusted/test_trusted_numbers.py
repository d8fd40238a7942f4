"""The numbers that this package names: limits, precisions, and sizes that were measured to be fast.

What is promised, and how much memory a machine needs, depends on them. Whoever changes one of them does it twice, here
too, and on purpose.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

from treering.trusted import cells, charges, dialect, noise, sealed
from treering.trusted.engines import duckdb, source
from treering.trusted.learning import minimisers, moments as learning_moments, points
from treering.trusted.learning.points import _UNIT, Bounds
from treering.trusted.ledger import named
from treering.trusted.operations import foreign, run, segment, synthesis
from treering.trusted.rows import (
    digests,
    files,
    intake,
    kept,
    moments,
    parts,
    persons,
    spool,
    tally,
    typed,
)
from treering.trusted.samplers import clocks, coins, select

NUMBERS: Final[dict[ModuleType, dict[str, Any]]] = {
    # What must fit into 64 bits, or into a double.
    segment: {"MOST_ROOM": 1 << 60},
    cells: {
        "LARGEST_WEIGHT": 1 << 31,
        "MAX_COUNT": 1 << 61,
        "DENSE_CELLS": 16_777_216,
        "MARGINAL_CELLS": 4_194_304,
        "CACHED_CELLS": 33_554_432,
    },
    charges: {"_PART": -1},
    duckdb: {
        "SETTINGS": {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "disabled_optimizers": "statistics_propagation",
        },
    },
    source: {"COUNTED_ROWS": 1_048_576, "MOST_LISTED": 4096},
    run: {"FIRST_BLOCK": 16, "LARGEST_BLOCK": 4096},
    minimisers: {
        "MOST_ENTRIES": 1 << 29,
        "_COPIED": 16_777_216,
        "_DRAWN": 4096,
        "_SHORT": 64.0,
        "_ROWS": 256,
        "_COLUMNS": 1024,
    },
    learning_moments: {"_FINEST": 12, "_FEW": 0.02, "_MOST_ROWS": 65_536, "_ROUNDS": 10},
    points: {"HELD": 8_388_608, "_EXACT_ROWS": 1_048_576, "_FIRST": 1024},
    noise: {"LARGEST_SCALE": float(1 << 48), "FEW": 12, "FIRST_BLOCK": 1, "LARGEST_BLOCK": 1024},
    foreign: {
        "MOST_CELLS": 1_048_576,
        "LARGEST_VALUE": 1 << 63,
        "_LARGEST_COUNT": {
            **{f"i{bits}": (1 << (bits - 1)) - 1 for bits in (8, 16, 32, 64, 128)},
            **{f"u{bits}": (1 << bits) - 1 for bits in (8, 16, 32, 64, 128)},
        },
        "_ROOT_OF_TWO": float(np.nextafter(np.sqrt(2), 1)) if np.sqrt(2) ** 2 < 2 else float(np.sqrt(2)),
    },
    digests: {"THREADS": 2, "MANY": 16_384},
    intake: {"BLOCK_ROWS": 262_144},
    kept: {"MERGED": 65_536},
    dialect: {"MOST_CUTS": 16},
    named: {"FAN": 8, "MOST": 4_194_304},
    parts: {"TAIL_BATCHES": 1024, "TAIL_ROWS": 65_536, "_PATIENCE": 64},
    persons: {"DIGEST_BYTES": 16, "_NO_LIMIT": 1 << 62},
    spool: {"LARGE": 32_768, "GROUP": 131_072, "_COMPRESSED": 4096, "_READ": 65_536, "_HASHED": 1_048_576},
    tally: {
        "SMALL": 16_384,
        "_SETTINGS": {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "disabled_optimizers": "statistics_propagation",
            "threads": "2",
        },
    },
    files: {"BLOCK_BYTES": 1_048_576, "BATCH_ROWS": 131_072, "SEEN_BYTES": 1_048_576},
    # Days are counted from 1 March of the year 0, as calendars of Gregorian years of 400 are.
    moments: {
        "DAY": 24 * 60 * 60,
        "HOUR": 60 * 60,
        "EPOCH": 719_468,
        "FIRST": 306,
        "LAST": 3_652_364,
        "FAR": 1 << 60,
        "TRANSITIONS": (1800, 2500),
        "CYCLE": 146_097 * 86_400,
    },
    clocks: {
        "LEAST": 1 / 1024,
        "LARGEST": float(1 << 38),
        "_BITS": 64,
        "_SLACK": 1 / (1 << 46),
        "_AT_ONCE": 32_768,
    },
    coins: {"_BITS": 64},
    sealed: {"_SALT_BYTES": 32},
    select: {"SHARPEST": Fraction(1, 1024), "_PRECISION": 64},
    synthesis: {
        "_FARTHEST": 1_000_000_000_000_000_000,
        "_DIGITS": 40,
        "_ZERO": Decimal(0),
        "_MOST_SCORE": 1 << 62,
        "_BLOCK": 262_144,
    },
}


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [(module, name, number) for module, names in NUMBERS.items() for name, number in names.items()],
)
def test_a_number_is_what_it_was(module: ModuleType, name: str, expected: Any) -> None:
    found = getattr(module, name)
    assert type(found) is type(expected)
    assert found == expected


def test_arrays_and_names_of_numbers() -> None:
    assert learning_moments._CLIPS.tolist() == [2.0**power for power in range(-12, 2)]
    assert learning_moments._PARTS.tolist() == [part / 64 for part in range(65)]
    assert (typed.EARLY, typed.LATE) == (-62_135_596_801_000_000, 253_402_300_800_000_000)


def test_points_lie_in_the_unit_ball() -> None:
    assert (Bounds().norm, Bounds().intercept, Bounds().classes, Bounds().label) == (1.0, 0.0, None, None)
    assert {
        "signs": Bounds(1.0, 0.0, (-1, 1), None),
        "numbers": Bounds(1.0, 0.0, None, 1.0),
        "none": Bounds(1.0, 0.0, None, None),
    } == _UNIT
