"""The accuracy promise of PMW and PMWG, sampled: errors beyond those stated in at most a beta share of the repetitions.

200 repetitions each, on data that grow on the way, with counting and weighted queries of which the later ones depend on
earlier answers. The binomial margin is stated: if a repetition failed with probability exactly beta, a test would fail
with probability below 1e-9. And the tests can fail: with four times the noise (256 times for the paper's profile, whose
constants leave that much room) more repetitions fail than beta allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

import treering as tr
from support.pmwg_cases import SCHEMA, Make, cell, make_runs_cheap, twice_measured
from treering.audit import Stream
from treering.budget.promise import Promise
from treering.mechanisms.adaptive import Adaptive
from treering.theory.pmwg import alpha as paper_alpha, static_size

REPEATS: Final = 200
FALSE_ALARM: Final = 1e-9
BETA: Final = 0.2
SMALL_BETA: Final = 0.005
"""The paper's theorem for delta > 0 asks for beta < 2^(−15/2)."""

QUERIES: Final = [
    *(cell(number) for number in range(SCHEMA.cells)),
    tr.Query.where(SCHEMA, late="yes"),
    tr.Query.where(SCHEMA, carrier=[1, 2]),
    tr.Query.where(SCHEMA, carrier=[2, 3, 4], late="no"),
    tr.Query.weighted(SCHEMA, [0.1, 0.9, 0.0, 1.0, 0.3, 0.5, 0.7, 0.2]),
    tr.Query.weighted(SCHEMA, [1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.5, 1.0], resolution=2),
]
BATCH: Final = 6

SHARES: Final = np.array(
    [
        [0.02, 0.03, 0.55, 0.05, 0.05, 0.10, 0.15, 0.05],
        [0.30, 0.05, 0.05, 0.05, 0.05, 0.30, 0.15, 0.05],
        [0.05, 0.05, 0.05, 0.05, 0.60, 0.05, 0.05, 0.10],
    ]
)
"""The distribution of the rows that arrive, batch by batch: it drifts."""


def weights(query: tr.Query) -> npt.NDArray[np.float64]:
    """What a row in each cell adds to the query's share."""
    return np.array([Stream(SCHEMA, ((number,),)).counts(query)[0] for number in range(SCHEMA.cells)]) / query.scale


WEIGHTS: Final = [weights(query) for query in QUERIES]


@dataclass(frozen=True)
class Setting:
    """A mechanism, the sizes at which it is asked, and by how much more noise it must fail."""

    make: Make
    sizes: tuple[int, int, int]
    alpha: float
    beta: float = BETA
    louder: float = 4.0


@dataclass
class Seen:
    """What the repetitions showed."""

    failed: npt.NDArray[np.bool_]
    """Which of them had an answer further off than its error."""
    refused: int = 0
    kinds: set[str] = field(default_factory=set)


def sample(setting: Setting) -> Seen:
    """All repetitions look at one database as it grows, each through a gate of its own.

    One that has failed is asked no more.
    """
    database = tr.GrowingDatabase(SCHEMA)
    mechanisms = [setting.make(database) for _ in range(REPEATS)]
    seen = Seen(np.zeros(REPEATS, dtype=np.bool_))
    starts = np.zeros(REPEATS, dtype=np.int64)
    rows = np.zeros(SCHEMA.cells)
    for size, shares in zip(setting.sizes, SHARES, strict=True):
        arrived = np.random.default_rng(size).multinomial(size - database.size, shares)
        database.append_cells(np.repeat(np.arange(SCHEMA.cells), arrived))
        rows += arrived
        for repeat in np.flatnonzero(~seen.failed):
            asked = [(starts[repeat] + step) % len(QUERIES) for step in range(BATCH)]
            answers = ask(mechanisms[repeat], [QUERIES[number] for number in asked])
            seen.refused += BATCH - len(answers)
            for number, answer in zip(asked, answers, strict=False):
                assert answer.error <= setting.alpha
                seen.kinds.add(answer.kind)
                seen.failed[repeat] |= abs(answer.value - WEIGHTS[number] @ rows / size) > answer.error + 1e-12
            # What is asked next depends on the last answer.
            starts[repeat] = round(1000 * answers[-1].value) if answers else 0
    return seen


def ask(mechanism: Adaptive, queries: list[tr.Query]) -> Sequence[tr.Answer]:
    """The answers, up to where the budget ends."""
    try:
        return mechanism.ask_many(queries)
    except (tr.BudgetExceeded, tr.Halted) as error:
        return [answer for answer in error.answers if isinstance(answer, tr.Answer)]


# -- what is sampled ---------------------------------------------------------------------------------------------------


def measure_first(delta: float) -> Setting:
    """Half of the budget is spent by the first batch; the guard takes over when the database has grown."""
    alpha, size = 0.1, 400
    epsilon = twice_measured(delta, alpha, BETA, size, BATCH)
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=alpha, beta=BETA)
    return Setting(make, (size, 60_000, 90_000), alpha)


def guard_only(epsilon: float, delta: float) -> Setting:
    alpha = 0.05
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=alpha, beta=BETA, measure_first=False)
    return Setting(make, (40_000, 60_000, 100_000), alpha)


def static(epsilon: float, delta: float) -> Setting:
    alpha, queries = 0.05, 3 * BATCH
    size = static_size(SCHEMA.cells, Promise(epsilon, delta).budget, alpha, BETA, queries)
    make = partial(tr.PMW, epsilon=epsilon, delta=delta, alpha=alpha, beta=BETA, queries=queries)
    return Setting(make, (size, size, size), alpha)


def paper(start: int, epsilon: float, delta: float, beta: float) -> Setting:
    """At the alpha from which on the paper's theorem holds, within its query budget for kappa = 1."""
    alpha = paper_alpha(start, SCHEMA.cells, epsilon, delta, beta, 1) * (1 + 1e-9)
    make = partial(tr.PMWG, epsilon=epsilon, delta=delta, alpha=alpha, beta=beta, profile="paper")
    return Setting(make, (start, start * 3 // 2, 2 * start), alpha, beta, louder=256.0)


SETTINGS: Final[dict[str, Callable[[], Setting]]] = {
    "tight, pure": lambda: measure_first(0.0),
    "tight, zCDP": lambda: measure_first(1e-3),
    "tight, guard only, pure": lambda: guard_only(10.0, 0.0),
    "tight, guard only, zCDP": lambda: guard_only(10.0, 1e-3),
    "paper, pure": lambda: paper(10**6, 100.0, 0.0, BETA),
    "paper, zCDP": lambda: paper(2 * 10**6, 1.0, 0.1, SMALL_BETA),
    "PMW, pure": lambda: static(10.0, 0.0),
    "PMW, zCDP": lambda: static(10.0, 1e-3),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_errors_are_within_those_stated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs_cheap(monkeypatch)
    setting = SETTINGS[name]()
    seen = sample(setting)
    assert seen.failed.sum() <= most(setting.beta)
    assert seen.refused == 0
    assert seen.kinds >= {"easy", "hard"}


@pytest.mark.parametrize("name", SETTINGS)
def test_with_more_noise_than_planned_for_they_are_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = SETTINGS[name]()
    make_runs_cheap(monkeypatch, setting.louder)
    assert sample(setting).failed.sum() > most(setting.beta)


def most(beta: float) -> int:
    """The most repetitions that may fail: more, at a rate of beta, have a probability below `FALSE_ALARM`."""
    return int(binom.isf(FALSE_ALARM, REPEATS, beta))
