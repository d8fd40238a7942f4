"""Rows of a plan: the interface of all mechanisms, then per-query noise, static algorithms and ContinualHistogram.

`Case` is one user's question, `Candidate` what every mechanism answers to it. Neighbours replace one row. Each `alpha`
is a theorem: its docstring has the proof, or says where it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

from treering.budget.promise import Budget, Promise
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, root_at_least
from treering.theory import continual, series
from treering.theory.cells import CellNoise, SmoothLaplaceCell, SubGaussianCell, all_subsets, subset_radius
from treering.theory.continual import CentredBound, any_period
from treering.theory.nodes import prefix, segment_of
from treering.theory.schedule.epochs import AlphaOf
from treering.theory.search import rarity
from treering.theory.static import answer_radius, histogram_noise, mwem_plan
from treering.words import counted

GUESS: Final = 0.5
"""The error of answering ½ every time, without data: a guarantee is worth something only below it."""


_NARROW: Final = 3.0


@dataclass(frozen=True, slots=True)
class Case:
    """One user's question: all numbers are public."""

    cells: int
    size: int
    """The rows at the start."""
    epsilon: float
    delta: float
    beta: float
    queries: float
    """How many queries will be asked; infinite: without end."""
    horizon: float
    """The largest number of rows that matters; infinite: for ever; equal to ``size``: the data do not grow."""
    batch: int | None = None
    """The least number of rows of a batch; None: one over `BATCHES` of the starting size."""

    @property
    def budget(self) -> Budget:
        """The budget that keeps the promise (epsilon, delta)."""
        return _budget(self.epsilon, self.delta)

    @property
    def grows(self) -> bool:
        """Whether rows will be added."""
        return self.horizon > self.size

    def at(self, *, size: int | None = None, epsilon: float | None = None) -> Case:
        """The same question at another size, or for another epsilon. Whether the data grow stays the same."""
        rows = self.size if size is None else size
        horizon = max(self.horizon, rows) if self.grows else float(rows)
        return replace(self, size=rows, epsilon=self.epsilon if epsilon is None else epsilon, horizon=horizon)


@lru_cache(maxsize=256)
def _budget(epsilon: float, delta: float) -> Budget:
    return Promise(epsilon, delta).budget


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a guarantee lasts: for how many queries, and up to how many rows. Both infinite: for ever."""

    queries: float
    size: float

    @property
    def words(self) -> str:
        """The lifetime in words.

        >>> Lifetime(1000, math.inf).words, Lifetime(math.inf, 2e6).words
        ('for ever, 1,000 queries', 'up to 2,000,000 rows')
        """
        if self.size < math.inf:
            rows = f"up to {counted(self.size, 'row')}"
            return rows if self.queries == math.inf else f"{rows}, {counted(self.queries, 'query', 'queries')}"
        return "for ever" if self.queries == math.inf else f"for ever, {counted(self.queries, 'query', 'queries')}"

    def covers(self, case: Case) -> bool:
        """Whether the guarantee lasts for all queries and all sizes of a question."""
        return self.queries >= case.queries and self.size >= case.horizon


class Candidate(ABC):
    """A mechanism in a plan: what it guarantees for a `Case`, and how to describe it."""

    name: str
    use: str
    """The call that makes it."""
    create: str | None = None
    """What `treering create` takes to make it, beside the promise; None: no vault has it."""
    declared: bool = False
    """Whether it answers only queries that were named before it ran."""
    most_cells: ClassVar[float] = math.inf
    """The largest universe that the library runs it on."""
    coarseness: ClassVar[float] = 0.0
    """By how much, relatively, `alpha` may be above the least that `meets` accepts."""

    @abstractmethod
    def alpha(self, case: Case) -> float:
        """The guarantee: but with probability beta *every* answer at every size from the start to the horizon is
        within this share of the rows. Infinite, or 1 or more, if there is no guarantee."""

    def meets(self, case: Case, alpha: float) -> bool:
        """Whether the guarantee is at most ``alpha``; for some mechanisms faster than computing it."""
        return self.alpha(case) <= alpha

    def shortfall(self, case: Case, alpha: float) -> float | None:
        """A number, fast to compute, that is about 1 where ``alpha`` is just met and falls smoothly as epsilon and size
        grow; infinite: far from met; None: there is no such number. It guides searches and proves nothing."""
        return None

    @abstractmethod
    def expected(self, case: Case, alpha: float) -> float | None:
        """The mean of |answer − truth| at the start, for a counting query over half of the cells that was chosen
        without looking at the noise; None where it depends on the data. ``alpha`` is the guarantee."""

    @abstractmethod
    def lifetime(self, case: Case) -> Lifetime:
        """How long the guarantee lasts."""

    @abstractmethod
    def because(self, case: Case) -> str:
        """Why it would win, as the end of a sentence that begins with "because"."""

    def runs(self, case: Case) -> bool:
        """Whether the library runs it on this many cells."""
        return case.cells <= self.most_cells

    def limit(self, case: Case) -> str:
        """What to say if the library does not run it."""
        return f"theory only: the library runs it on up to {self.most_cells:,} cells"

    def note(self, case: Case) -> str:
        """What else a user should know; may be empty."""
        return ""

    def options(self, case: Case, alpha: float) -> str | None:
        """`create`, for a guarantee of ``alpha``."""
        return self.create


def number(value: float) -> str:
    """A number in text, rounded to three digits.

    >>> number(0.012345), number(1234.5), number(0.0000123), number(0.00999999)
    ('0.0123', '1,230', '0.0000123', '0.0100')
    """
    rounded = float(f"{value:.3g}")
    if rounded == 0 or not math.isfinite(rounded):
        return f"{rounded:g}"
    digits = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, digits)}f}" if digits <= 12 else f"{rounded:.2e}"


def rounded_up(value: float) -> str:
    """A number in text, rounded up to three digits: what it bounds, the text bounds, too.

    >>> rounded_up(0.012341), rounded_up(0.5), rounded_up(12.0), rounded_up(1.2e-7)
    ('0.0124', '0.5', '12', '0.00000012')
    """
    exact = Decimal(repr(value))
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING).normalize():f}"


def mean_size(noise: Noise) -> float:
    """E|X| of one draw, in rows.

    Laplace, p = e^{−1/s}: 2·(1−p)/(1+p)·Σ k·p^k = 2p/(1−p²). Gaussian: summed if narrow; σ·√(2/π) within 1% from 3 on.
    """
    if isinstance(noise, Laplace):
        return 2 * math.exp(-1 / noise.scale) / -math.expm1(-2 / noise.scale)
    return noise.scale * math.sqrt(2 / math.pi) if noise.scale > _NARROW else _gaussian_moment(noise.scale, 1)


def deviation(noise: Noise) -> float:
    """The standard deviation of one draw, in rows: √(2p)/(1−p) for Laplace noise, nearly the scale for Gaussian."""
    if isinstance(noise, Laplace):
        return math.sqrt(2) * math.exp(-1 / (2 * noise.scale)) / -math.expm1(-1 / noise.scale)
    return noise.scale if noise.scale > _NARROW else math.sqrt(_gaussian_moment(noise.scale, 2))


def _gaussian_moment(sigma: float, power: int) -> float:
    masses = [math.exp(-((k / sigma) ** 2) / 2) for k in range(1, math.ceil(12 * sigma) + 1)]
    total = 2 * math.fsum(k**power * mass for k, mass in enumerate(masses, 1))
    return total / (1 + 2 * math.fsum(masses))


def mean_of_sum(deviation: float, cells: float) -> float:
    """About E|Σ X_i| over ``cells`` cells: that of the normal law with the same variance."""
    return math.sqrt(2 / math.pi * cells) * deviation


# -- noise and error bounds that a budget buys -------------------------------------------------------------------------


_STEPS: Final = 4
"""Bounds for Laplace noise are computed, and cached, for scales a factor 2^(1/4) apart."""


def answers_noise(budget: Budget, queries: int) -> Noise:
    """The noise with which answers to k counting ``queries`` cost the budget: k/s = ε, or k/(2σ²) = ρ."""
    if budget.kind == "pure":
        return Laplace(at_least(queries / budget.total))
    return Gaussian(root_at_least(queries / (2 * budget.total)))


def histogram_rows(noise: Noise, cells: int, beta: float) -> float:
    """`treering.theory.static.histogram_radius`, in rows, or up to a few per cent more, from a small table.

    In units of the scale the bound stays for Gaussian noise, and falls for Laplace noise as the scale grows
    (`treering.theory.cells.smooth`): that of a smaller scale, stretched, is a bound.
    """
    kept = kept_scale(noise)
    return noise.scale * _all_queries(kept, cells, beta)


def declared_rows(noise: Noise, cells: int, beta: float) -> float:
    """The error, in rows, that one query declared before exceeds with probability at most beta, the total being known.

    Its weights less their mean, a_i, have |a_i| ≤ 1 and Σa_i² ≤ N/4. The error is Σ a_i·X_i, and log E e^{λaX} ≤
    a²·log E e^{λX} for the laws of `smooth`: −log(1 − (λs)²a²) is convex in a² and 0 at 0, (λσ)²a²/2 is linear. So
    Chernoff's bound is at most that for ⌈N/4⌉ cells of weight 1. In units of the scale neither law depends on it.
    """
    law = SmoothLaplaceCell(1.0) if isinstance(noise, Laplace) else SubGaussianCell(1.0)
    return noise.scale * subset_radius(law, [1.0], [-(-cells // 4)], beta)


def kept_scale(noise: Noise) -> float | None:
    """The scale of the table entry for this noise, at most the noise's own; None for Gaussian noise."""
    if not isinstance(noise, Laplace):
        return None
    return min(noise.scale, math.pow(2.0, math.floor(math.log2(noise.scale) * _STEPS) / _STEPS))


@lru_cache(maxsize=2**12)
def _all_queries(scale: float | None, cells: int, beta: float) -> float:
    """The bound for all queries, in units of the scale: queries over half of the cells are the worst."""
    if scale is None:
        return float(all_subsets(SubGaussianCell(1.0), cells, beta).radius(cells / 2))
    return float(all_subsets(SmoothLaplaceCell(scale), cells, beta).radius(cells / 2)) / scale


# -- per-query noise, and static algorithms run once -------------------------------------------------------------------


class PerQuery(Candidate):
    """Each of k answers measured with noise of its own, for a k-th of the budget: the yardstick, which is told k.

    Guarantee: k adaptive answers with Laplace noise of scale k/ε are ε-DP, with Gaussian noise of σ² = k/(2ρ) ρ-zCDP,
    by composition. Each is off by more than `answer_radius` at β/k with probability at most β/k; divided by the size,
    that is largest at the start.
    """

    name = "noise per query"
    use = "AnswersBox(queries).release(db, ...), for a list"

    def alpha(self, case: Case) -> float:
        if case.queries == math.inf:
            return math.inf
        return answer_radius(self._noise(case), case.beta / case.queries) / case.size

    def expected(self, case: Case, alpha: float) -> float | None:
        return None if case.queries == math.inf else mean_size(self._noise(case)) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(case.queries, math.inf)

    def because(self, case: Case) -> str:
        if case.queries == 1:
            return "a single query can have the whole budget"
        return f"{case.queries:,.0f} queries are few enough for each to have a share of the budget of its own"

    def note(self, case: Case) -> str:
        if case.queries == math.inf:
            return "a budget has no share for each of endlessly many queries"
        return "a yardstick: each query can be asked once, and no vault has it; Rings keeps its answers current"

    def _noise(self, case: Case) -> Noise:
        return answers_noise(case.budget, int(case.queries))


class BoxCandidate(Candidate):
    """A static algorithm, run once on the database as it is."""

    @abstractmethod
    def error(self, case: Case) -> AlphaOf | None:
        """The proven error of a run, as a share of the rows; None where it cannot be run."""

    @abstractmethod
    def typical(self, case: Case, budget: Budget) -> float | None:
        """The mean error of a run with this budget: see `Candidate.expected`."""

    def fresh(self, case: Case) -> float:
        """The error of one run with the whole budget, at the start."""
        error = self.error(case)
        return math.inf if error is None else error(case.size, case.budget, case.beta)

    def alpha(self, case: Case) -> float:
        """The error of the run; at a later size τ the answer is (n/τ)·y + (1−n/τ)/2, and its error (n/τ)·α + (1−n/τ)/2
        (`treering.theory.schedule.Staleness`). It is linear in n/τ, so it is largest at one of the ends."""
        fresh, kept = self.fresh(case), case.size / case.horizon
        return max(fresh, kept * fresh + (1 - kept) / 2)

    def expected(self, case: Case, alpha: float) -> float | None:
        return self.typical(case, case.budget)

    def lifetime(self, case: Case) -> Lifetime:
        queries = case.queries if self.declared else math.inf
        return Lifetime(queries, case.horizon if case.horizon < math.inf else case.size)

    def note(self, case: Case) -> str:
        fresh = self.fresh(case)
        if not case.grows or not fresh < math.inf:
            return ""
        return (
            f"static only: within {number(fresh)} of the first {counted(case.size, 'row')}, and blind to those that "
            "come after"
        )


class Histogram(BoxCandidate):
    """HistogramBox: answers all queries, also those chosen after the release."""

    name = "HistogramBox, once"
    use = "HistogramBox().release(db, ...)"
    most_cells = 2**24

    def error(self, case: Case) -> AlphaOf:
        return lambda size, budget, beta: histogram_rows(histogram_noise(budget), case.cells, beta) / size

    def typical(self, case: Case, budget: Budget) -> float:
        return mean_of_sum(deviation(histogram_noise(budget)), case.cells / 2) / case.size

    def because(self, case: Case) -> str:
        return (
            f"{counted(case.cells, 'cell')} are few for {counted(case.size, 'row')}: a noisy count of every cell is "
            "paid for once, and then answers everything"
        )


class DeclaredHistogram(BoxCandidate):
    """HistogramBox(queries): answers a list of queries declared before the release."""

    name = "HistogramBox(queries), once"
    use = "HistogramBox(queries).release(db, ...)"
    declared = True
    most_cells = 2**24

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        return lambda size, budget, beta: declared_rows(histogram_noise(budget), case.cells, beta / case.queries) / size

    def typical(self, case: Case, budget: Budget) -> float:
        return mean_of_sum(deviation(histogram_noise(budget)), case.cells / 4) / case.size

    def because(self, case: Case) -> str:
        return "the noise of the cells averages out in queries that were chosen before it was drawn"


class Answers(BoxCandidate):
    """AnswersBox: answers a declared list, each query with noise of its own; `PerQuery` as a box, for schedules."""

    name = "AnswersBox(queries), once"
    use = "AnswersBox(queries).release(db, ...)"
    declared = True

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        number = int(case.queries)
        return lambda size, budget, beta: answer_radius(answers_noise(budget, number), beta / number) / size

    def typical(self, case: Case, budget: Budget) -> float | None:
        if case.queries == math.inf:
            return None
        return mean_size(answers_noise(budget, int(case.queries))) / case.size

    def because(self, case: Case) -> str:
        if case.queries == 1:
            return "a single query can have all the noise that the budget allows"
        return f"{case.queries:,.0f} queries are few enough for each to have noise of its own"


class Learnt(BoxCandidate):
    """MWEM: answers a declared list from a distribution learnt for it (`treering.theory.static` has the theorem)."""

    name = "MWEM(queries), once"
    use = "MWEM(queries).release(db, ...)"
    declared = True
    most_cells = 2**26

    def error(self, case: Case) -> AlphaOf | None:
        if case.queries == math.inf:
            return None
        cells, number = case.cells, int(case.queries)

        def alpha(size: int, budget: Budget, beta: float) -> float:
            return mwem_plan(cells, number, Fraction(1), size, budget, beta).alpha(cells, size)

        return alpha

    def typical(self, case: Case, budget: Budget) -> None:
        return None

    def because(self, case: Case) -> str:
        return "of many queries that are known before it needs to measure only those that it cannot guess"


# -- ContinualHistogram ------------------------------------------------------------------------------------------------


BATCHES: Final = 100
"""A plan assumes batches of at least one over this of the starting size, unless it is told."""

_WIDE: Final = 2.0**20
_UP: Final = 1 + 1e-9


class Continual(Candidate):
    """ContinualHistogram: `treering.theory.continual` has the theorem for each batch; here is the one for all batches.

    Batch j comes at n + (j−1)·b rows or later, b the least size of a batch. Segment k is the batches 2^k … 2^{k+1}−1;
    the noise at one of them is that of the roots of the segments before, and of one node of its own for each binary
    digit 1 of c, the number of the segment's batches so far. A segment is cut into quarters (k ≥ 2): in the i-th, 0 ≤
    i ≤ 3, c is i·2^{k−2} and the digits below, of which (i+1)·2^{k−2} − 1 has all, or c is (i+1)·2^{k−2}. Fewer nodes
    have smaller moments, β·w_j falls, and at most 4(k+1)+1 estimates share it. So the larger of the bounds at these,
    over the rows at the quarter's first batch, holds for the quarter. Once 2^k·b ≥ 4n, the next segment has at least
    1.8 times the rows, and its noise grows by less: errors fall from there on.

    That is for trees. By square roots (`treering.theory.series`) the variance rises with every batch, so the last batch
    of a quarter has the largest, and at most 3(4(k+2)+1) estimates share β, and one for each segment of full length.
    From batch j to batch 2j the deviation grows by less than 1.8 (a test looks at it).
    """

    name = "ContinualHistogram"
    use = "ContinualHistogram(db, ...)"
    create = "--mechanism continual"
    most_cells = 2**22

    def alpha(self, case: Case) -> float:
        noise = _noise(case)
        return math.inf if noise is None else noise.scale * _worst(kept_scale(noise), case.at(epsilon=1.0))

    def expected(self, case: Case, alpha: float) -> float | None:
        """The typical error after the first batch."""
        noise = _noise(case)
        if noise is None:
            return None
        return mean_of_sum(continual.deviation(noise, prefix(1)), case.cells / 4) / case.size

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(math.inf, math.inf)

    def because(self, case: Case) -> str:
        return (
            f"{counted(case.cells, 'cell')} are few for {counted(case.size, 'row')}, and new rows are counted apart "
            "from old ones, so that nothing is paid for twice"
        )

    def note(self, case: Case) -> str:
        if not case.grows:
            return ""
        return f"for batches of {counted(batch_of(case), 'row')} or more; its error falls as 1/rows in the long run"


class Windows(Candidate):
    """ContinualHistogram(windows=True): every period of whole batches up to the horizon, each batch counted by itself.

    Guarantee: `treering.theory.continual.any_period`, over the rows of the smallest batch: an error of a period is at
    most its number of leaves times that, and it has at least so many times the rows.
    """

    name = "ContinualHistogram(windows=True)"
    use = "ContinualHistogram(db, ..., windows=True)"
    most_cells = 2**22

    def alpha(self, case: Case) -> float:
        noise, batch = _noise(case), min(case.size, batch_of(case))
        if noise is None or case.horizon == math.inf:
            return math.inf
        leaves = 1 + int(case.horizon - case.size) // batch_of(case)
        return any_period(noise, case.cells, case.beta, leaves) / batch

    def expected(self, case: Case, alpha: float) -> float | None:
        """The typical error after the first batch."""
        return Continual().expected(case, alpha)

    def lifetime(self, case: Case) -> Lifetime:
        return Lifetime(math.inf, case.horizon)

    def because(self, case: Case) -> str:
        return f"batches of {batch_of(case):,} rows are large for {case.cells:,} cells, and each is counted by itself"

    def note(self, case: Case) -> str:
        return f"for the rows of any one batch of {batch_of(case):,} rows, or of the latest so many, or all"


def batch_of(case: Case) -> int:
    """The least number of rows of a batch that the plan assumes."""
    return -(-case.size // BATCHES) if case.batch is None else case.batch


def _noise(case: Case) -> Noise | None:
    try:
        return continual.start_noise(case.budget)
    except ParameterError:  # too wide for any database
        return None


_UNIT: Final = Budget("zcdp", Fraction(1))


@lru_cache(maxsize=256)
def _worst(scale: float | None, case: Case) -> float:
    """The largest error over all batches, in units of ``scale``, which is that of `kept_scale`; epsilon is ignored.

    Rough bounds come first: a batch whose rough bound is below the largest fine bound found needs no fine one.
    """
    batch = batch_of(case)
    most = 1 + (case.horizon - case.size) / batch
    rough: list[tuple[float, int, int]] = []
    segment = 0
    while 2**segment <= most and 2**segment * batch < 8 * case.size:
        for first, leaves in quarters(segment):
            rows = case.size + (first - 1) * batch
            rough += [
                (_rough(needed_scale(scale, leaf), leaf, case.cells, case.beta) / rows, rows, leaf) for leaf in leaves
            ]
        segment += 1
    worst = 0.0
    for bound, rows, leaf in sorted(rough, reverse=True):
        if bound > worst:
            worst = max(worst, min(bound, _fine(needed_scale(scale, leaf), leaf, case.cells, case.beta) / rows))
    return worst


def quarters(segment: int) -> Iterator[tuple[int, set[int]]]:
    """For each quarter of a segment: its first batch, and the batches whose noise is largest in it."""
    length = max(1, 2**segment // 4)
    for first in range(2**segment, 2 ** (segment + 1), length):
        last = first + length - 1
        yield first, {max(first, last - 1), last}


def needed_scale(scale: float | None, leaf: int) -> float | None:
    """The scale to compute a batch's bound for: after the first batch the bound does not depend on it."""
    return scale if scale is None or leaf == 1 else _WIDE


def cell_law(scale: float | None, leaf: int, cells: int) -> tuple[CellNoise, float]:
    """An upper bound on the law of a cell's noise at a batch, and the scale of the first batch's noise in it.

    Laplace noise of scale s has E e^{(u/s)X} = 1/(1 − sinh²(hu)/sinh²(h)), h = 1/(2s), where sinh(hu)/sinh(h) falls in
    h: at fixed u it rises with s, so a bound by moments for wide noise, scaled down, holds for all.
    """
    if scale is None:
        return SubGaussianCell(continual.prefix_law(_UNIT, cells, leaf).deviation * _UP), 1.0
    if leaf == 1:
        return SmoothLaplaceCell(scale), scale
    return continual.tree_law(Laplace(scale), prefix(leaf)).cell, scale / _UP


def estimate_share(scale: float | None, leaf: int, cells: int, beta: float) -> float:
    """A lower bound on the failure probability of each estimate, at any batch with as many digits as ``leaf``."""
    segment = segment_of(leaf)
    weight = math.exp(-rarity(math.log(2 ** (segment + 1) - 1)))
    windows = continual.KEPT * (segment + 1) + 1
    if scale is None and series.rooted(cells):  # In three segments, and one in each of the others.
        windows = 3 * (windows + series.KEPT) + (2 << segment) // series.segment_length(1, cells)
    return beta * weight / windows


@lru_cache(maxsize=4096)
def _rough(scale: float | None, leaf: int, cells: int, beta: float) -> float:
    """A coarser, faster bound than `_fine`: that of `treering.theory.continual` for all queries at once."""
    law, unit = cell_law(scale, leaf, cells)
    share = estimate_share(scale, leaf, cells, beta) / 4
    total = subset_radius(law, [1.0], [cells], share)
    return (float(all_subsets(law, cells, share).radius(cells / 2)) + total / 2) / unit


@lru_cache(maxsize=1024)
def _fine(scale: float | None, leaf: int, cells: int, beta: float) -> float:
    law, unit = cell_law(scale, leaf, cells)
    return CentredBound(law, cells, estimate_share(scale, leaf, cells, beta)).worst / unit
