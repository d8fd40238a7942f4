"""The rows of a plan: their numbers are the mechanisms' own."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import pytest

import treering as tr
from support.plan_rows import row_of
from treering.boxes import histogram
from treering.boxes.answers import AnswersBox
from treering.boxes.histogram import HistogramBox
from treering.boxes.mwem import MWEM
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Promise
from treering.errors import GuaranteeError
from treering.mechanisms import continual as continual_mechanism
from treering.mechanisms.histogram import hypothesis
from treering.noise import Gaussian, Laplace
from treering.schedulers.scheduler import BBScheduler
from treering.theory import continual
from treering.theory.plan import (
    GROWING,
    STATIC,
    growing as plan_pmwg,
    growing as plan_smalldb,
    plan,
    rows as plan_continual,
)
from treering.theory.plan.growing import PaperSmallDBGCandidate, ScheduledCandidate
from treering.theory.plan.rows import Candidate, Case, Continual, deviation, mean_size
from treering.theory.pmwg import log_query_budget, paper_queries
from treering.theory.pmwg.lifetime import static
from treering.theory.pmwg.paper import LARGEST_BETA

SCHEMA: Final = tr.Schema({"month": tr.integers(1, 8), "late": tr.categories("no", "yes")})


# -- boxes and mechanisms ----------------------------------------------------------------------------------------------


def test_the_constants_are_those_of_the_mechanisms() -> None:
    limits = {row.name: row.most_cells for row in (*STATIC, *GROWING)}
    assert limits["PMWG"] == limits["PMW"] == limits["MWEM(queries), once"] == hypothesis.MAX_CELLS
    assert limits["HistogramBox, once"] == limits["HistogramBox(queries), once"] == histogram.MOST_CELLS
    assert limits["ContinualHistogram"] == continual_mechanism.MAX_CELLS


def database(size: int) -> tr.GrowingDatabase:
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells(np.arange(size) % SCHEMA.cells)
    return db


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("name", ["PMWG", "PMWG, guard only"])
def test_pmwg_lasts_for_ever_at_its_row_s_alpha_and_not_below(delta: float, name: str) -> None:
    row = plan(SCHEMA.cells, 10**6, 1.0, delta, 0.05).row(name)
    db = database(10**6)

    def lasts(alpha: float) -> bool:
        first = name == "PMWG"
        return tr.PMWG(db, 1.0, delta, alpha=alpha, beta=0.05, measure_first=first).guarantee.forever

    assert lasts(row.alpha)
    assert not lasts(row.alpha * 0.99)


def test_pmwg_for_more_than_a_billion_queries_is_still_a_theorem() -> None:
    usual, more = (row_of("PMWG", 1000, 10**8, 1.0, queries=queries) for queries in (10**9, 10**12))
    assert usual.alpha < more.alpha < 1.2 * usual.alpha
    assert more.lifetime.queries == 10**12
    assert row_of("PMWG", 1000, 10**8, 1.0, queries=math.inf).lifetime.queries == 10**9


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_pmw_fits_its_budget_at_its_row_s_alpha_and_not_below(delta: float) -> None:
    row, budget = row_of("PMW", 100, 10**6, 1.0, delta=delta, queries=1000, horizon=None), Promise(1.0, delta).budget
    assert static(10**6, 100, budget, row.alpha, 0.05, 1000).fits
    assert not static(10**6, 100, budget, row.alpha * 0.995, 0.05, 1000).fits


QUERIES: Final = [
    tr.Query.where(SCHEMA, month=range(1, last), late=late) for last in range(2, 9) for late in ("no", "yes")
]


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("epsilon", [0.3, 1.7, 40.0])
def test_boxes_promise_what_their_rows_say(epsilon: float, delta: float) -> None:
    planned = plan(SCHEMA.cells, 3000, epsilon, delta, 0.02, queries=len(QUERIES), horizon=None)
    budget = Promise(epsilon, delta).budget

    def own(box: Any) -> float:
        return float(box.bind(SCHEMA).alpha(3000, budget, 0.02))

    assert own(HistogramBox()) <= planned.row("HistogramBox, once").alpha * (1 + 1e-12) < 1.05 * own(HistogramBox())
    assert planned.row("noise per query").alpha == own(AnswersBox(QUERIES))
    assert planned.row("MWEM(queries), once").alpha == own(MWEM(QUERIES))
    # A row knows how many queries there are, not which: it speaks of the worst.
    assert (
        own(HistogramBox(QUERIES)) <= planned.row("HistogramBox(queries), once").alpha < 2 * own(HistogramBox(QUERIES))
    )


def test_every_declared_query_is_within_the_row_s_alpha() -> None:
    """Also those that weigh one cell only, or all cells differently, at a tiny beta."""
    generator = np.random.default_rng(1)
    for delta in (0.0, 1e-9):
        budget = Promise(0.7, delta).budget
        for beta in (0.3, 1e-12):
            row = plan(SCHEMA.cells, 10**5, 0.7, delta, beta, queries=1, horizon=None).row(
                "HistogramBox(queries), once"
            )
            for _ in range(20):
                weights = generator.random(SCHEMA.cells) if generator.random() < 0.5 else np.eye(SCHEMA.cells)[3]
                box = HistogramBox([tr.Query.weighted(SCHEMA, weights)]).bind(SCHEMA)
                assert box.alpha(10**5, budget, beta) <= row.alpha


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_schedulers_promise_what_their_rows_say(delta: float) -> None:
    planned = plan(SCHEMA.cells, 40_000, 1.0, delta, 0.05, queries=len(QUERIES))
    boxes = {
        "BBScheduler over HistogramBox": HistogramBox(),
        "BBScheduler over AnswersBox": AnswersBox(QUERIES),
        "BBScheduler over MWEM": MWEM(QUERIES),
    }
    for name, box in boxes.items():
        own = BBScheduler(database(40_000), box, 1.0, delta, 0.05).guarantee.alpha
        assert own * 0.999 <= planned.row(name).alpha <= 1.05 * own


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("cells", [2, 16, 300])
def test_continual_histogram_stays_within_its_row_s_alpha_at_every_batch(cells: int, delta: float) -> None:
    size, budget = 40_000, Promise(1.0, delta).budget
    promised = plan_continual.Continual().alpha(Case(cells, size, 1.0, delta, 0.05, 1, math.inf))
    batch = size // plan_continual.BATCHES
    leaves = [*range(1, 64), *(2**k + shift for k in range(6, 13) for shift in (-2, -1, 0, 2 ** (k - 1) - 1))]
    own = [continual.alpha(budget, cells, size + (leaf - 1) * batch, 0.05, leaf) for leaf in leaves]
    assert max(own) <= min(1.0, promised)
    assert promised <= 1.15 * max(own)


def test_the_paper_s_row_covers_the_queries() -> None:
    for delta in (0.0, 1e-9):
        for queries in (10, 10**9, 10**15):
            case = Case(1000, 10**8, 1.0, delta, 0.005, queries, math.inf)
            alpha, kappa = plan_pmwg.PaperPMWGCandidate().alpha(case), plan_pmwg._kappa(case, 0.005)
            assert log_query_budget(10**8, 10**8, 1000, 1.0, delta, alpha, kappa) >= math.log(queries) - 1e-9
            assert kappa == 1 or queries > 10**10
    assert paper_queries(10**8, 1000, 1.0, 0.0, 0.005, 1).log(10**8) > math.log(10**9)


def test_the_paper_s_row_says_which_of_its_conditions_were_met_for_it() -> None:
    row = row_of("PMWG, the paper's", 1000, 10**9, 3.0, delta=1e-9, beta=0.05)
    assert "beta" in row.note
    assert "epsilon" in row.note
    case = Case(1000, 10**9, 1.0, 1e-9, LARGEST_BETA * (1 - 1e-9), 10**5, math.inf)
    assert row.alpha == plan_pmwg.PaperPMWGCandidate().alpha(case)
    assert "at least 21 rows" in row_of("PMWG, the paper's", 1000, 20, 3.0).note


# -- SmallDB -----------------------------------------------------------------------------------------------------------


def halves(cells: int) -> tuple[tr.Schema, list[tr.Query]]:
    """All queries of half of an even number of cells, complements once: they tell all cells apart."""
    schema = tr.Schema({"cell": tr.integers(1, cells)})
    chosen = [half for half in combinations(range(cells), cells // 2) if 0 in half]
    return schema, [tr.Query.weighted(schema, np.isin(np.arange(cells), half).astype(float)) for half in chosen]


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("cells", [4, 6, 8])
def test_smalldb_promises_what_its_rows_say(cells: int, delta: float) -> None:
    schema, queries = halves(cells)
    budget, box = Promise(1.0, delta).budget, SmallDB(queries).bind(schema)
    for size in (1000, 10**6):
        case = Case(cells, size, 1.0, delta, 0.05, len(queries), size)
        assert plan_smalldb.SmallDBCandidate().runs(case)
        assert plan_smalldb.SmallDBCandidate().alpha(case) == pytest.approx(box.alpha(size, budget, 0.05), rel=1e-9)
        smaller = SmallDB(queries[:2]).bind(schema).alpha(size, budget, 0.05)
        assert smaller <= plan_smalldb.SmallDBCandidate().alpha(case) * (1 + 1e-9)


def test_smalldb_is_theory_where_its_candidates_cannot_be_listed() -> None:
    row = row_of("SmallDBG", 1000, 10**8, 1.0, queries=1000)
    assert not row.runs
    assert "theory only" in row.note
    assert row.expected is None
    assert row.alpha < 0.027  # theory.md: 0.027 with staleness not halved
    schema, queries = halves(16)
    with pytest.raises(GuaranteeError):
        SmallDB(queries[::32]).bind(schema)
    assert not plan_smalldb.SmallDBCandidate().runs(Case(16, 1000, 1.0, 0.0, 0.05, 200, 1000))


def test_the_papers_smalldbg_stands_where_the_paper_says() -> None:
    papers = PaperSmallDBGCandidate()
    for size, delta, alpha in ((10**8, 0.0, 0.307), (10**10, 0.0, 0.1232), (10**8, 1e-9, 0.437), (10**10, 1e-9, 0.160)):
        assert papers.alpha(Case(1000, size, 1.0, delta, 0.05, 1000, math.inf)) == pytest.approx(alpha, abs=6e-4)
    assert papers.alpha(Case(1000, 100, 1.0, 0.0, 0.05, 1000, math.inf)) == math.inf
    assert "start with at least" in papers.note(Case(1000, 100, 1.0, 0.0, 0.05, 1000, math.inf))


def test_the_paper_s_constants_stand_beside_ours_and_are_never_better() -> None:
    ours, papers = plan_pmwg.GuardOnlyCandidate(), plan_pmwg.PaperPMWGCandidate()
    for delta in (0.0, 1e-9):
        for cells in (1000, 10**6):
            for size in (10**6, 10**8, 10**10):
                case = Case(cells, size, 1.0, delta, 0.05, 10**6, math.inf)
                assert ours.alpha(case) < papers.alpha(case)
    assert round(papers.alpha(Case(1000, 10**10, 1.0, 0.0, 0.05, 10**6, math.inf)), 4) == 0.0918


# -- order -------------------------------------------------------------------------------------------------------------


SCHEDULES: Final = [each for each in GROWING if isinstance(each, ScheduledCandidate)]


@pytest.mark.parametrize(
    "candidate", [*STATIC, *SCHEDULES, Continual(), PaperSmallDBGCandidate()], ids=lambda each: each.name
)
def test_guarantees_fall_with_epsilon_and_size_and_rise_with_cells_and_queries(candidate: Candidate) -> None:
    base = Case(500, 10**6, 1.0, 0.0, 0.05, 1000, 10**6 if candidate in STATIC else math.inf)
    zcdp = replace(base, delta=1e-9)
    falling = [base.at(epsilon=epsilon) for epsilon in (8.0, 0.5)], [zcdp.at(size=10**k) for k in (7, 5)]
    rising = [replace(base, cells=n) for n in (30, 5000)], [replace(zcdp, queries=k) for k in (1, 10**6)]
    # SmallDB's rows are of two kinds, with a jump between: what can be listed, and theory.
    for less, more in falling if "SmallDB" in candidate.name else (*falling, *rising):
        assert candidate.alpha(less) <= candidate.alpha(more) * 1.001


# -- helpers of the rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_means_and_deviations_of_noise_are_exact_enough(scale: float) -> None:
    values = np.arange(-400, 401)
    for noise, weights, tolerance in (
        (Laplace(scale), np.exp(-np.abs(values) / scale), 1e-9),
        (Gaussian(scale), np.exp(-((values / scale) ** 2) / 2), 0.01),
    ):
        masses = weights / weights.sum()
        assert mean_size(noise) == pytest.approx(float(masses @ np.abs(values)), rel=tolerance)
        assert deviation(noise) == pytest.approx(math.sqrt(float(masses @ values**2)), rel=tolerance)
