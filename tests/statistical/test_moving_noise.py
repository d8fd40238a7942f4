"""Sparse vector with the paper's moving noise draws what its theorem says, at every size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treering as tr
from support.exact_runs import Asked, Floats, laplace_upper, transcripts
from support.goodness import fits, miss_rate
from treering.gate import FINE

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
SIZES = (16, 64, 256)
GAPS = (-4, -9, 6)
"""At each size one question: so many rows more than half are late."""
RUNS = 3000
MISS = 1e-6


def xi(size: int) -> float:
    """2√t: noise of scale 4, 8 and 16 rows on the threshold, twice as much on a question."""
    return 2 * math.sqrt(size)


def begin(make: type[tr.ATG] | type[tr.NATG]) -> tuple[tr.GrowingDatabase, tr.ATG | tr.NATG]:
    db = tr.GrowingDatabase(SCHEMA)
    return db, make(db, 0.5, 10.0, xi=xi)


def walk() -> int:
    """After how many silent questions the run halts; all of them if it does not."""
    db, alarm = begin(tr.ATG)
    known = 0
    for silent, (size, gap) in enumerate(zip(SIZES, GAPS, strict=True)):
        late, more = size // 2 + gap - known, size - db.size
        db.append_cells([1] * late + [0] * (more - late))
        known += late
        if alarm.ask("late = 'yes'"):
            return silent
    return len(SIZES)


def asked(stretch: bool = True) -> list[Asked]:
    """The comparisons on the finer grid: the reach is (t/ξ_t)/(t0/ξ_{t0}) rows, 1, 2 and 4."""
    reaches = (1, 2, 4) if stretch else (1, 1, 1)
    return [Asked(FINE * gap, FINE * reach) for gap, reach in zip(GAPS, reaches, strict=True)]


def exact() -> Floats:
    return transcripts(asked(), 4.0, 8.0)


def test_runs_halt_exactly_as_enumerated() -> None:
    seen = np.bincount([walk() for _ in range(RUNS)], minlength=len(SIZES) + 1)
    assert fits(seen, exact())


@pytest.mark.parametrize("name", ["frozen", "too little"])
def test_other_noise_would_be_seen(name: str) -> None:
    wrong = {
        "frozen": transcripts(asked(stretch=False), 4.0, 8.0),
        "too little": transcripts(asked(), 2.0, 4.0),
    }[name]
    assert miss_rate(exact(), wrong, RUNS) < MISS


# -- the number --------------------------------------------------------------------------------------------------------


def distances(scale: float) -> Floats:
    """P(ζ < −s), P(−s ≤ ζ < 0), P(0 ≤ ζ < s), P(ζ ≥ s) for s = 32 rows and noise of this scale, on the finer grid."""
    cuts = np.array([FINE * -32, 0, FINE * 32])
    above = laplace_upper(FINE * scale, cuts)
    return np.diff(np.concatenate([[0.0], 1 - above, [1.0]]))


def number() -> int:
    """Which of those the number's noise is, in a run that began at 16 rows and halts at 256."""
    db, alarm = begin(tr.NATG)
    db.append_cells([0] * 16)
    assert alarm.ask("late = 'no'", estimate=1.0) is None or alarm.halted
    if alarm.halted:
        return -1
    db.append_cells([1] * 120 + [0] * 120)
    share = alarm.ask("late = 'yes'", estimate=0.0)
    if share is None:
        return -1
    return int(np.searchsorted([-32, 0, 32], share * 256 - 120, side="right"))


def test_the_number_has_the_noise_of_the_size_where_it_is_given() -> None:
    """8t/ξ_t = 64 rows at 256; at 16 rows, where the run began, it would have been 16."""
    outcomes = np.array([number() for _ in range(RUNS)])
    seen = np.bincount(outcomes[outcomes >= 0], minlength=4)
    assert seen.sum() > RUNS / 10
    assert fits(seen, distances(64.0))
    assert miss_rate(distances(64.0), distances(16.0), int(seen.sum())) < MISS
