"""MarginalsBox: noisy marginals of all sets of k attributes, and a distribution fitted to them.

The distribution is fitted by the package mbi (the last section). That is post-processing: privacy does not depend on
it. mbi is an extra and is imported, with jax, only when a fit is made. It works in double precision; jax's own setting
is not changed.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from treering.arrays import Floats, Ints
from treering.boxes.base import Progress, Rate, Release, SchemaBox, silent
from treering.budget.promise import Budget
from treering.domain.query import Attributes, Query, evaluate_many
from treering.domain.schema import Schema
from treering.errors import ParameterError, QueryError, TreeringError
from treering.gate import HistogramReleased
from treering.lazy import missing
from treering.mechanisms.histogram.hypothesis import rows_of
from treering.noise import Laplace, Noise
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory.static import Marginals

MOST_SETS: Final = 256
"""The most marginals: a fit over more takes minutes to compile."""

MOST_CELLS: Final = 2**20
"""The most cells of all marginals together: each gets a draw of exact noise, and every step of the fit visits all."""

_MEASURING: Final = 0.3
"""The fraction of a run that is spent on measuring, for the progress report."""


class MarginalsBox(SchemaBox):
    """The marginals of all sets of ``ways`` attributes with exact noise, and a distribution that fits them.

    *Privacy.* Every marginal is a histogram with discrete Laplace noise (pure budgets) or discrete Gaussian noise (zCDP
    ones), and costs the share of the budget that `treering.theory.static` gives it: together they cost the budget,
    neighbours replacing one row. The fit, by mbi, is post-processing.

    *Accuracy.* The class is all linear queries over at most ``ways`` attributes. For each, the noisy marginals confine
    the true share to an interval (`treering.theory.static`: all intervals hold together except with probability beta).
    The answer is the fitted distribution's, moved into the interval if it lies outside; the error is the distance to
    the farther end. Where that would be more than `alpha`, the answer is moved on towards the middle. So what is proven
    rests on the noise alone, and the fit makes answers consistent with each other and closer to the truth than the
    noise by itself; where it does not fit (its squared deviations are above the noise's own) the noisy marginal
    answers.

    *Rows.* Synthetic rows are drawn from the fitted distribution. They cover all attributes together; the proven errors
    are about ``ways`` attributes at a time, and about answers, not rows.

    Needs the extra: ``pip install 'treering[marginals]'``.
    """

    def __init__(self, ways: int) -> None:
        super().__init__()
        self.ways = whole(ways, "ways")
        self._plan: Marginals | None = None

    def __repr__(self) -> str:
        return f"MarginalsBox({self.ways})"

    @property
    def plan(self) -> Marginals:
        """The sets of attributes, and how they share a budget."""
        if self._plan is None:
            self._plan = Marginals(self.schema.shape, self.ways)
        return self._plan

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The error of any query over at most ``ways`` attributes: `Marginals.radius` over the size."""
        chance = float(probability(beta, "beta"))
        return self.plan.radius(budget, chance) / whole(size, "size")

    @property
    def rate(self) -> Rate:
        """The paper's rate, with p = 1, for beta up to ½."""
        return Rate(1.0, self.plan.rate, 1.0)

    def run(
        self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent
    ) -> MarginalsRelease:
        """Measure the marginals, then fit a distribution to them."""
        chance = float(probability(beta, "beta"))
        self._check(gate)
        load()  # before anything is paid for
        with gate.transaction():
            released = self._measure(gate, budget, progress)
            size = gate.size
        proven = _Proven(self.schema, size, self.plan, released, self.plan.radius(budget, chance), chance)
        model = fit(
            self.schema.shape,
            [_as_shares(event, size) for event in released],
            lambda done: progress(_MEASURING + (1 - _MEASURING) * done, "fitting a distribution"),
        )
        return MarginalsRelease(proven, model)

    def _measure(self, gate: Gate, budget: Budget, progress: Progress) -> list[HistogramReleased]:
        released = []
        for number, (attributes, noise) in enumerate(zip(self.plan.sets, self.plan.noises(budget), strict=True)):
            names = ", ".join(self.schema.names[position] for position in attributes)
            progress(_MEASURING * number / len(self.plan.sets), f"measuring {names}")
            released.append(gate.histogram(noise, attributes))
        return released

    def _prepare(self, schema: Schema) -> None:
        check_installed()
        plan = self.plan
        if plan.number > MOST_SETS:
            raise ParameterError(
                "ways",
                f"= {self.ways} means {plan.number:,} marginals of {len(plan.positions)} attributes, and at most "
                f"{MOST_SETS:,} can be fitted: use fewer attributes, or a smaller number of ways",
            )
        if sum(plan.sizes) > MOST_CELLS:
            raise ParameterError(
                "ways",
                f"= {self.ways} means marginals of {sum(plan.sizes):,} cells together, and at most {MOST_CELLS:,} can "
                "be fitted: use coarser attributes, or a smaller number of ways",
            )


class MarginalsRelease(Release):
    """Answers about up to ``ways`` attributes, with proven errors, and synthetic rows over all attributes."""

    def __init__(self, proven: _Proven, model: Fitted) -> None:
        super().__init__(proven.schema, proven.size)
        self._proven = proven
        self._model = model
        self._trusted = frozenset(
            event.attributes for event in proven.released if _fits(event, model.marginal(event.attributes), self.size)
        )

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """The fitted distribution's answers within what the noisy marginals prove: see `MarginalsBox`."""
        self._check(queries)
        values, errors = np.empty(len(queries)), np.empty(len(queries))
        groups: defaultdict[Attributes, list[int]] = defaultdict(list)
        for index, query in enumerate(queries):
            groups[query.attributes].append(index)
        for attributes, places in groups.items():
            asked = [queries[place] for place in places]
            middle, low, high = self._proven.intervals(attributes, asked)
            wanted = self._fitted(attributes, asked) if self._proven.home(attributes) in self._trusted else middle
            values[places], errors[places] = self._proven.choose(wanted, middle, low, high)
        return values / self.size, errors / self.size

    def sample(self, rows: int, generator: np.random.Generator) -> pa.Table:
        """Rows drawn independently from the fitted distribution, in the schema's own values."""
        return rows_of(self.schema, self._model.draw(whole(rows, "rows", 0), generator))

    def _fitted(self, attributes: Attributes, queries: Sequence[Query]) -> Floats:
        if not attributes:
            return _counts(queries, np.array(float(self.size)))
        return _counts(queries, self._model.marginal(attributes) * self.size)

    def _check(self, queries: Sequence[Query]) -> None:
        ways = self._proven.plan.ways
        for query in queries:
            if len(query.attributes) > ways:
                raise QueryError(
                    f"the marginals of {ways} attributes at a time say nothing proven about {len(query.attributes)}: "
                    f"{', '.join(query.names)}. Ask about fewer, or make the box with more ways"
                )


@dataclass(frozen=True)
class _Table:
    """The noisy counts over some attributes."""

    counts: Floats
    missing: float
    """The number of rows, which is public, minus the sum of the counts."""
    radius: Callable[[Floats], Floats]
    """The proven error of a query, in rows, as a function of its mass, in cells."""


class _Proven:
    """The intervals that the noisy marginals prove for queries, in rows."""

    def __init__(
        self,
        schema: Schema,
        size: int,
        plan: Marginals,
        released: Sequence[HistogramReleased],
        worst: float,
        beta: float,
    ) -> None:
        self.schema = schema
        self.size = size
        self.plan = plan
        self.released = tuple(released)
        self._worst = worst
        self._beta = beta
        self._homes: dict[Attributes, HistogramReleased] = {}
        self._tables: dict[Attributes, _Table] = {}

    def home(self, attributes: Attributes) -> Attributes:
        """The measured set of attributes whose marginal gives the least noise for these attributes."""
        return self._home(attributes).attributes

    def intervals(self, attributes: Attributes, queries: Sequence[Query]) -> tuple[Floats, Floats, Floats]:
        """The queries' noisy counts, and the lower and upper ends of the intervals that contain the true ones.

        A query's weights run from a to b, so that it is a + (b−a)·f with f from 0 to 1, and the total is public: the
        error is b − a times that of f, or of 1 − f, whichever has less mass.
        """
        table = self._table(attributes)
        cells = self.plan.cells(attributes)
        least, most, masses = (np.array(each) for each in zip(*map(_weighing, queries), strict=True))
        heavy = masses > cells / 2
        noisy = _counts(queries, table.counts) + np.where(heavy, most, least) * table.missing
        errors = (most - least) * table.radius(np.where(heavy, cells - masses, masses))
        return noisy, noisy - errors, noisy + errors

    def choose(self, wanted: Floats, middle: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The allowed values nearest to the wanted ones, and their errors.

        low ≤ truth ≤ high, hence a value v is off by at most max(v − low, high − v). That is at most ``worst`` for v
        between high − worst and low + worst, which is no empty range: high − low ≤ 2·worst.
        """
        inner, outer = np.maximum(low, 0.0), np.minimum(high, self.size)
        # The range is empty only if the event of probability beta has happened: then the noisy counts are the answer.
        void = inner > outer
        inner, outer, wanted = np.where(void, low, inner), np.where(void, high, outer), np.where(void, middle, wanted)
        least, most = np.maximum(inner, outer - self._worst), np.minimum(outer, inner + self._worst)
        values = np.minimum(np.maximum(wanted, least), np.maximum(most, least))
        return values, np.minimum(np.maximum(values - inner, outer - values), self._worst)

    def _home(self, attributes: Attributes) -> HistogramReleased:
        if attributes not in self._homes:
            wider = [event for event in self.released if set(attributes) <= set(event.attributes)]
            # Adding up c_S/c_A cells multiplies the variance by c_S/c_A.
            self._homes[attributes] = min(wider, key=lambda event: event.counts.size * event.noise.scale**2)
        return self._homes[attributes]

    def _table(self, attributes: Attributes) -> _Table:
        if attributes not in self._tables:
            self._tables[attributes] = self._project(attributes) if attributes else self._everything()
        return self._tables[attributes]

    def _everything(self) -> _Table:
        return _Table(np.array(float(self.size)), 0.0, np.zeros_like)

    def _project(self, attributes: Attributes) -> _Table:
        event = self._home(attributes)
        others = tuple(axis for axis, position in enumerate(event.attributes) if position not in attributes)
        counts = event.counts.sum(axis=others).astype(np.float64)
        summed = event.counts.size // counts.size
        whole_set = self.plan.bound(event.noise, event.counts.size, self._beta)
        part = self.plan.projected_bound(event.noise, counts.size, summed, self._beta) if others else None

        def radius(masses: Floats) -> Floats:
            known = whole_set.radius(masses * summed)
            return known if part is None else np.minimum(known, part.radius(masses))

        return _Table(counts, self.size - float(counts.sum()), radius)


def _weighing(query: Query) -> tuple[float, float, float]:
    """The least and the largest weight of a query, and the sum over joint values of its weight, rescaled to [0, 1]."""
    if query.constant:
        weight = 1.0 if query.table is None else float(query.table) / query.scale
        return weight, weight, 0.0
    if query.masks is not None:
        return 0.0, 1.0, float(math.prod(int(mask.sum()) for mask in query.masks))
    assert query.table is not None
    least, most = int(query.table.min()), int(query.table.max())
    mass = (int(query.table.sum()) - least * query.joint) / (most - least)
    return least / query.scale, most / query.scale, mass


def _counts(queries: Sequence[Query], counts: Floats) -> Floats:
    """The weighted count of each query; all queries are over the same attributes, whose counts are given."""
    scales = np.array([query.scale for query in queries], dtype=np.float64)
    return evaluate_many(queries, lambda _: counts, np.float64) / scales


def _as_shares(event: HistogramReleased, size: int) -> NoisyMarginal:
    return NoisyMarginal(event.attributes, event.counts / size, _deviation(event.noise) / size)


def _deviation(noise: Noise) -> float:
    return noise.scale * math.sqrt(2) if isinstance(noise, Laplace) else noise.scale


def _fits(event: HistogramReleased, marginal: Floats, size: int) -> bool:
    """Whether a fitted marginal is as near to the noisy one as the true one is expected to be."""
    squares = ((marginal * size - event.counts) ** 2).mean()
    return bool(squares <= _deviation(event.noise) ** 2)


# -- fitting a distribution to noisy marginals -------------------------------------------------------------------------


JOINT_CELLS: Final = 2**18
"""Universes of up to this many cells are fitted cell by cell, larger ones by a mixture of product distributions."""

COMPONENTS: Final = 100
"""The number of product distributions in a mixture."""

_JOINT_WORK: Final = 2**28
_JOINT_STEPS: Final = (100, 5000)
_MIXTURE_WORK: Final = 2**30
_MIXTURE_STEPS: Final = (200, 2000)
_BLOCK: Final = 50
"""The number of steps of a fit: as many as fit into this much work (cells times steps), within limits; mbi reports
after each block of steps."""

_STALLED: Final = 1e-6
_RATE: Final = 0.1


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """A measured marginal: shares of the rows by the joint values of some attributes, and their standard deviation."""

    attributes: Attributes
    shares: Floats
    deviation: float


class Fitted(Protocol):
    """A distribution over the universe."""

    def marginal(self, attributes: Attributes) -> Floats:
        """The shares of the joint values of some attributes."""

    def draw(self, rows: int, generator: np.random.Generator) -> Ints:
        """Cells drawn independently from the distribution."""


@dataclass(frozen=True, eq=False)
class Joint:
    """A share for every cell; ``positions`` are the attributes along the axes."""

    positions: Attributes
    shares: Floats

    def marginal(self, attributes: Attributes) -> Floats:
        """The shares of the joint values of some attributes."""
        others = tuple(axis for axis, position in enumerate(self.positions) if position not in attributes)
        return np.asarray(self.shares.sum(axis=others))

    def draw(self, rows: int, generator: np.random.Generator) -> Ints:
        """Cells drawn independently from the distribution."""
        reached = np.cumsum(self.shares.reshape(-1))
        found = np.searchsorted(reached, generator.random(rows) * reached[-1], side="right")
        return np.asarray(np.minimum(found, len(reached) - 1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of product distributions with equal weights: for each attribute a table, components × values."""

    shape: tuple[int, ...]
    tables: dict[int, Floats]

    @property
    def _components(self) -> int:
        return len(next(iter(self.tables.values())))

    def marginal(self, attributes: Attributes) -> Floats:
        """The shares of the joint values of some attributes."""
        product = np.full((self._components, 1), 1 / self._components)
        for position in attributes[:-1]:
            product = (product[:, :, np.newaxis] * self.tables[position][:, np.newaxis, :]).reshape(len(product), -1)
        sizes = [self.shape[position] for position in attributes]
        return np.asarray(product.T @ self.tables[attributes[-1]]).reshape(sizes)

    def draw(self, rows: int, generator: np.random.Generator) -> Ints:
        """Cells drawn independently from the distribution."""
        component = generator.integers(self._components, size=rows)
        cells = np.zeros(rows, dtype=np.int64)
        for position, size in enumerate(self.shape):
            cells = cells * size + (self._codes(position, component, generator) if position in self.tables else 0)
        return cells

    def _codes(self, position: int, component: Ints, generator: np.random.Generator) -> Ints:
        # One increasing row of numbers: component k's cumulative shares lie between k and k + 1.
        reached = np.cumsum(self.tables[position], axis=1)
        reached = reached / reached[:, -1:] + np.arange(len(reached))[:, np.newaxis]
        found = np.searchsorted(reached.reshape(-1), component + generator.random(len(component)), side="right")
        codes = found - component * reached.shape[1]
        return np.asarray(np.clip(codes, 0, reached.shape[1] - 1), dtype=np.int64)


def check_installed() -> None:
    """Raise if mbi is not installed."""
    if importlib.util.find_spec("mbi") is None:
        raise TreeringError(missing("MarginalsBox", "mbi", "marginals"))


def load() -> Any:
    """Import mbi, which takes a few seconds the first time."""
    check_installed()
    with _double_precision(), warnings.catch_warnings():
        # The warning is about jax's compilation cache on disk, which exists only where a folder is set for it.
        warnings.filterwarnings("ignore", message="JAX persistent compilation cache", category=UserWarning)
        import mbi
    return mbi


def fit(shape: tuple[int, ...], measured: Sequence[NoisyMarginal], told: Callable[[float], None]) -> Fitted:
    """A distribution that approximately minimises the squared deviations from the measurements; deterministic.

    Up to `JOINT_CELLS` cells it is the minimiser of greatest entropy (mirror descent over all cells); beyond, a mixture
    of product distributions found by gradient descent. A fit that fails numerically gives the uniform distribution.
    ``told`` is called with the fraction of the steps that are done.
    """
    positions = tuple(position for position, size in enumerate(shape) if size > 1)
    mbi = load()
    with _double_precision():
        domain = mbi.Domain(positions, [shape[position] for position in positions])
        measurements = [
            mbi.LinearMeasurement(each.shares.reshape(-1), each.attributes, each.deviation) for each in measured
        ]
        if math.prod(shape) <= JOINT_CELLS:
            return _joint(mbi, domain, measurements, told)
        return _mixture(shape, domain, measurements, told)


def _joint(mbi: Any, domain: Any, measurements: list[Any], told: Callable[[float], None]) -> Joint:
    steps = _steps(domain.size(), _JOINT_WORK, _JOINT_STEPS)
    fitted = mbi.estimation.MirrorDescent().estimate(
        domain, measurements, known_total=1.0, iters=steps, callback_fn=_telling(told, steps), tol=_STALLED
    )
    return Joint(domain.attributes, _normal(fitted.project(domain.attributes).datavector(flatten=False)))


def _mixture(shape: tuple[int, ...], domain: Any, measurements: list[Any], told: Callable[[float], None]) -> Mixture:
    # If all marginals are of single attributes, one product distribution fits them all.
    components = COMPONENTS if max(len(each.clique) for each in measurements) > 1 else 1
    work = components * sum(each.noisy_measurement.size for each in measurements)
    steps = _steps(work, _MIXTURE_WORK, _MIXTURE_STEPS)
    fitted = _estimator(components).estimate(
        domain, measurements, known_total=1.0, iters=steps, callback_fn=_telling(told, steps)
    )
    return Mixture(shape, {position: _normal(table, axis=1) for position, table in fitted.products.items()})


@lru_cache
def _estimator(components: int) -> Any:
    """The estimator, made once: jax does not reuse what it compiled for another one."""
    import optax
    from mbi.extensions.mixture_of_products import MixtureOfProductsEstimator

    return MixtureOfProductsEstimator(optimizer=optax.adam(_RATE), num_components=components)


def _steps(cost: int, work: int, limits: tuple[int, int]) -> int:
    least, most = limits
    return min(most, max(least, work // cost))


def _telling(told: Callable[[float], None], steps: int) -> Callable[[object], None]:
    blocks = iter(range(1, math.ceil(steps / _BLOCK) + 1))
    return lambda _: told(min(1.0, next(blocks) * _BLOCK / steps))


def _normal(values: Any, axis: int | None = None) -> Floats:
    """Normalised to the sum 1, in all or along an axis; uniform if some value is negative or not finite."""
    plain = np.array(values, dtype=np.float64)
    totals = plain.sum(axis=axis, keepdims=True)
    if not (np.isfinite(plain).all() and (plain >= 0).all() and (totals > 0).all()):
        plain = np.ones_like(plain)
        totals = plain.sum(axis=axis, keepdims=True)
    return np.asarray(plain / totals)


@contextmanager
def _double_precision() -> Iterator[None]:
    """Double precision in jax, in this thread and block alone: its default of seven digits is too few for shares."""
    import jax

    with jax.enable_x64(True):
        yield
