"""Each mechanism of a plan, run on random streams: its row's alpha is kept, and its typical error right within two.

*Guarantees.* beta is 1e-9: an answer beyond its row's alpha, at any size, fails a test by chance with that probability.

*Typical errors.* The mean of |answer − truth|, over random queries of half the cells, over repetitions with fresh data
and fresh noise. Measured over 150 repetitions (40 for PMWG), these means are 0.91 to 1.04 times what the rows say (PMWG
0.82 to 1.01), and the mean of one repetition has a standard deviation of at most 0.58 of itself (PMWG 0.27). So with
100 repetitions (PMWG 15) a factor of two is 7 standard deviations away, downwards, and 17 upwards: a test fails by
chance with a probability below 1e-10, each. And it can fail: a mechanism with a quarter of the epsilon is found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import treering as tr
from treering.answer import Answer
from treering.boxes.answers import AnswersBox
from treering.boxes.base import Box
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.boxes.smalldb import SmallDB
from treering.mechanisms import pmwg
from treering.mechanisms.continual import ContinualHistogram
from treering.schedulers.scheduler import BBScheduler, SmallDBG
from treering.theory import schedule
from treering.theory.ageing import aged
from treering.theory.plan import GROWING, STATIC, PlanRow, plan
from treering.theory.pmwg import forever

BETA: Final = 1e-9
REPEATS: Final = 100
PMWG_REPEATS: Final = 15
BATCHES: Final = 12

Floats: TypeAlias = npt.NDArray[np.float64]


class Asked(Protocol):
    """What answers queries."""

    def ask_many(self, queries: Sequence[tr.Query]) -> list[Answer]: ...


class OneByOne:
    """Asks one question after the other: each that is new opens a series of its own."""

    def __init__(self, rings: tr.Rings) -> None:
        self._rings = rings

    def ask_many(self, queries: Sequence[tr.Query]) -> list[Answer]:
        return [self._rings.ask(query) for query in queries]


Make: TypeAlias = Callable[[tr.GrowingDatabase, Any, float], Asked]
"""A mechanism for a database, from its row and epsilon."""


class World:
    """A universe, queries of half of its cells, and random data."""

    def __init__(self, cells: int, queries: int, size: int, epsilon: float, delta: float) -> None:
        self.schema = tr.Schema({"cell": tr.integers(1, cells)})
        self.cells, self.size, self.epsilon, self.delta = cells, size, epsilon, delta
        self.generator = np.random.default_rng([cells, queries, size])
        halves = {self._half() for _ in range(50 * queries)}  # complements are one query
        self.weights = np.array(sorted(halves)[:: max(1, len(halves) // queries)][:queries], dtype=np.float64)
        self.counts = np.zeros(cells, dtype=np.int64)
        self.queries = [tr.Query.weighted(self.schema, weights) for weights in self.weights]

    def _half(self) -> tuple[int, ...]:
        weights = self.generator.permutation(np.arange(self.cells) < self.cells // 2)
        return tuple(int(weight) for weight in (weights if weights[0] else ~weights))

    def shares(self) -> Floats:
        """A distribution over the cells, drawn at random."""
        return self.generator.dirichlet(np.ones(self.cells))

    def database(self, shares: Floats) -> tr.GrowingDatabase:
        """One of the starting size."""
        db = tr.GrowingDatabase(self.schema)
        self.counts = np.zeros(self.cells, dtype=np.int64)
        self.append(db, shares, self.size)
        return db

    def append(self, db: tr.GrowingDatabase, shares: Floats, rows: int) -> None:
        """Rows from a distribution."""
        drawn = self.generator.choice(self.cells, rows, p=shares)
        self.counts = self.counts + np.bincount(drawn, minlength=self.cells)
        db.append_cells(drawn)

    def errors(self, answers: Sequence[Answer]) -> Floats:
        """|answer − truth|."""
        truth = self.weights @ self.counts / self.counts.sum()
        off: Floats = np.abs(np.array([answer.value for answer in answers]) - truth)
        return off

    def row(self, name: str, *, grows: bool = True, epsilon: float | None = None) -> PlanRow:
        """The plan's."""
        planned = plan(
            self.cells,
            self.size,
            self.epsilon if epsilon is None else epsilon,
            self.delta,
            BETA,
            queries=len(self.queries),
            horizon=math.inf if grows else None,
        )
        return planned.row(name)


@pytest.fixture(autouse=True)
def _plans_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules and plans depend on public parameters alone: repetitions share them."""
    monkeypatch.setattr(schedule, "fixed_for", cache(schedule.fixed_for))
    monkeypatch.setattr(pmwg, "forever", cache(forever))


def mean_error(world: World, make: Make, row: PlanRow, epsilon: float, repeats: int) -> float:
    """The mean error over fresh data and noise; no error is above the row's alpha."""
    means = []
    for _ in range(repeats):
        db = world.database(world.shares())
        errors = world.errors(make(db, row, epsilon).ask_many(world.queries))
        assert errors.max() <= row.alpha or epsilon < world.epsilon
        means.append(errors.mean())
    return float(np.mean(means))


# -- the mechanisms ----------------------------------------------------------------------------------------------------


def make_of(name: str, world: World) -> Make:
    """How a row's mechanism is made."""
    delta, queries = world.delta, world.queries

    def pmwg_of(**options: Any) -> Make:
        return lambda db, row, epsilon: tr.PMWG(db, epsilon, delta, alpha=row.alpha, beta=BETA, **options)

    makers: dict[str, Make] = {
        "Rings": lambda db, _, epsilon: OneByOne(tr.Rings(db, epsilon, delta, BETA, pace=len(queries))),
        "SmallDBG": lambda db, _, epsilon: SmallDBG(db, queries, epsilon, delta, BETA),
        "ContinualHistogram": lambda db, _, epsilon: ContinualHistogram(db, epsilon, delta, BETA),
        "PMW": lambda db, row, epsilon: tr.PMW(db, epsilon, delta, row.alpha, BETA, len(queries)),
        "PMWG": pmwg_of(),
        "PMWG, guard only": pmwg_of(measure_first=False),
        "PMWG, the paper's": pmwg_of(profile="paper"),
    }
    if name in makers:
        return makers[name]
    # Bound once, so that schedules for it are made once.
    box = box_of(name, queries).bind(world.schema)
    if name.startswith("BBScheduler"):
        return lambda db, _, epsilon: BBScheduler(db, box, epsilon, delta, BETA)
    return lambda db, _, epsilon: box.release(db, epsilon, delta, BETA)


def box_of(name: str, queries: Sequence[tr.Query]) -> Box:
    """The box of a row that is one, or a schedule over one."""
    kind = name.removeprefix("BBScheduler over ").removesuffix(", once")
    boxes: dict[str, Callable[[], Box]] = {
        "HistogramBox": HistogramBox,
        "HistogramBox(queries)": lambda: HistogramBox(queries),
        "noise per query": lambda: AnswersBox(queries),
        "AnswersBox": lambda: AnswersBox(queries),
        "MWEM": lambda: MWEM(queries),
        "MWEM(queries)": lambda: MWEM(queries),
        "SmallDB(queries)": lambda: SmallDB(queries),
    }
    return boxes[kind]()


def test_every_mechanism_of_the_plans_is_simulated() -> None:
    """But the paper's SmallDBG, whose box is ours, and whose theorem needs more rows than it is quickly drawn for."""
    names = {each.name for each in (*STATIC, *GROWING)}
    assert names - {name for name, *_ in TYPICAL} - {name for name, _ in GUARANTEED} == {"SmallDBG, the paper's"}


# -- typical errors ----------------------------------------------------------------------------------------------------

PURE: Final = (16, 20, 3000, 2.0, 0.0)
MANY_ROWS: Final = (16, 20, 30_000, 2.0, 0.0)
GAUSSIAN: Final = (16, 20, 20_000, 2.0, 1e-9)
LARGE: Final = (16, 40, 100_000, 30.0, 0.0)
LARGE_GAUSSIAN: Final = (16, 40, 300_000, 2.0, 1e-9)
SMALL: Final = (4, 3, 800, 1.0, 0.0)
SMALLEST: Final = (4, 3, 150, 1.0, 0.0)

TYPICAL: Final = [
    ("Rings", MANY_ROWS, True),
    ("Rings", GAUSSIAN, True),
    ("HistogramBox, once", PURE, False),
    ("HistogramBox, once", GAUSSIAN, False),
    ("HistogramBox(queries), once", PURE, False),
    ("HistogramBox(queries), once", GAUSSIAN, False),
    ("noise per query", PURE, True),
    ("noise per query", GAUSSIAN, True),
    ("BBScheduler over HistogramBox", PURE, True),
    ("BBScheduler over HistogramBox", GAUSSIAN, True),
    ("BBScheduler over HistogramBox(queries)", GAUSSIAN, True),
    ("BBScheduler over AnswersBox", GAUSSIAN, True),
    ("ContinualHistogram", PURE, True),
    ("ContinualHistogram", GAUSSIAN, True),
    ("SmallDB(queries), once", SMALLEST, False),
    ("SmallDBG", SMALL, True),
    ("PMWG", LARGE, True),
    ("PMWG", LARGE_GAUSSIAN, True),
]


@pytest.mark.parametrize(("name", "world", "grows"), TYPICAL)
def test_typical_errors_are_right_within_a_factor_of_two(name: str, world: Any, grows: bool) -> None:
    there = World(*world)
    row = there.row(name, grows=grows)
    assert row.guaranteed
    assert row.expected is not None
    repeats = PMWG_REPEATS if name == "PMWG" else REPEATS
    seen = mean_error(there, make_of(name, there), row, there.epsilon, repeats)
    assert row.expected / 2 < seen < row.expected * 2


def test_a_quarter_of_the_epsilon_is_found_out() -> None:
    there = World(*PURE)
    for name in ("HistogramBox, once", "noise per query"):
        row = there.row(name, grows=False)
        assert row.expected is not None
        assert mean_error(there, make_of(name, there), row, there.epsilon / 4, REPEATS) > 2 * row.expected


# -- guarantees on streams ---------------------------------------------------------------------------------------------

PAPER: Final = (16, 10, 20_000, 50_000.0, 0.0)

GUARANTEED: Final = [
    ("Rings", MANY_ROWS),
    ("Rings", GAUSSIAN),
    ("BBScheduler over HistogramBox", PURE),
    ("BBScheduler over HistogramBox", GAUSSIAN),
    ("BBScheduler over HistogramBox(queries)", PURE),
    ("BBScheduler over AnswersBox", GAUSSIAN),
    ("BBScheduler over MWEM", LARGE),
    ("ContinualHistogram", PURE),
    ("ContinualHistogram", GAUSSIAN),
    ("SmallDBG", SMALL),
    ("PMWG", LARGE),
    ("PMWG", LARGE_GAUSSIAN),
    ("PMWG, guard only", LARGE),
    ("PMWG, guard only", LARGE_GAUSSIAN),
    ("PMWG, the paper's", PAPER),
    ("PMW", LARGE),
    ("MWEM(queries), once", GAUSSIAN),
]


@pytest.mark.parametrize(("name", "world"), GUARANTEED)
def test_no_answer_on_a_growing_drifting_stream_is_beyond_alpha(name: str, world: Any) -> None:
    """New rows come from other distributions than old ones, in batches from 1% of the start to its whole size."""
    there = World(*world)
    grows = not name.startswith(("PMW", "MWEM")) or name.startswith("PMWG")
    row = there.row(name, grows=grows)
    assert row.alpha < 1
    db = there.database(there.shares())
    mechanism = make_of(name, there)(db, row, there.epsilon)
    answers = mechanism.ask_many(there.queries)
    for batch in range(BATCHES if grows else 0):
        assert there.errors(answers).max() <= row.alpha
        part = (0.01, 0.05, 0.3, 1.0)[batch % 4]
        there.append(db, there.shares(), math.ceil(part * there.size))
        answers = mechanism.ask_many(there.queries)
    assert there.errors(answers).max() <= row.alpha


def test_a_stale_release_answered_half_way_keeps_the_static_row_s_alpha() -> None:
    there = World(*PURE)
    horizon = 2 * there.size
    row = plan(there.cells, there.size, there.epsilon, there.delta, BETA, horizon=horizon).row("HistogramBox, once")
    db = there.database(there.shares())
    release = HistogramBox().release(db, there.epsilon, there.delta, BETA)
    for _ in range(10):
        there.append(db, there.shares(), there.size // 10)
        values, errors = aged(there.queries, *release.shares(there.queries), there.size / db.size, centred=True)
        truth = there.weights @ there.counts / there.counts.sum()
        assert np.abs(values - truth).max() <= errors.max() <= row.alpha * (1 + 1e-12)
    assert db.size == horizon


def test_pmwg_s_budget_lasts_at_its_row_s_alpha() -> None:
    there = World(*LARGE_GAUSSIAN)
    row = there.row("PMWG")
    mechanism = tr.PMWG(there.database(there.shares()), there.epsilon, there.delta, alpha=row.alpha, beta=BETA)
    mechanism.ask_many(there.queries)
    assert mechanism.guarantee.forever
