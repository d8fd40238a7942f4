"""A distribution fitted to noisy marginals by mbi: post-processing, so nothing here needs to be believed for privacy.

mbi is an extra and is loaded, with jax, only when a fit is made. It works in double precision; jax's own setting is
left as it is.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from treering.arrays import Floats, Ints
from treering.errors import TreeringError

Attributes: TypeAlias = tuple[int, ...]

JOINT_CELLS: Final = 2**18
"""Universes of up to so many cells are fitted cell by cell, larger ones by a mixture."""

COMPONENTS: Final = 100
"""The product distributions in a mixture."""

_JOINT_WORK: Final = 2**28
_JOINT_STEPS: Final = (100, 5000)
_MIXTURE_WORK: Final = 2**30
_MIXTURE_STEPS: Final = (200, 2000)
_BLOCK: Final = 50
"""How many steps a fit takes: as many as fit into this much work (cells times steps), within limits; mbi reports after
each block of them."""

_STALLED: Final = 1e-6
_RATE: Final = 0.1


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """What was measured: shares of the rows over the joint values of some attributes, and their standard deviation."""

    attributes: Attributes
    shares: Floats
    deviation: float


class Model(Protocol):
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
    """The even mixture of product distributions: for each attribute a table, components by values."""

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
    """Refuse where the extra is missing."""
    if importlib.util.find_spec("mbi") is None:
        raise TreeringError(
            "fitting a distribution to marginals needs the package mbi: pip install treering[marginals]"
        )


def load() -> Any:
    """Import mbi: a few seconds, the first time."""
    check_installed()
    with _double_precision(), warnings.catch_warnings():
        # About jax's compilation cache on disk, which exists only where somebody has set a folder for it.
        warnings.filterwarnings("ignore", message="JAX persistent compilation cache", category=UserWarning)
        import mbi
    return mbi


def fit(shape: tuple[int, ...], measured: Sequence[NoisyMarginal], told: Callable[[float], None]) -> Model:
    """The distribution nearest to the measurements in squared deviations, or near it: the same for the same input.

    Up to `JOINT_CELLS` cells it is the one of greatest entropy among those (mirror descent over all cells); beyond, a
    mixture of product distributions found by gradient descent. A fit that fails numerically gives the uniform one.
    ``told`` hears the share of the steps that are done.
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
    # One product distribution has all the marginals of single attributes that there can be.
    components = COMPONENTS if max(len(each.clique) for each in measurements) > 1 else 1
    work = components * sum(each.noisy_measurement.size for each in measurements)
    steps = _steps(work, _MIXTURE_WORK, _MIXTURE_STEPS)
    fitted = _estimator(components).estimate(
        domain, measurements, known_total=1.0, iters=steps, callback_fn=_telling(told, steps)
    )
    return Mixture(shape, {position: _normal(table, axis=1) for position, table in fitted.products.items()})


@lru_cache
def _estimator(components: int) -> Any:
    """Made once, because what jax has compiled for one it does not use for another."""
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
    """As shares, 1 in all or along an axis; even ones if they are no numbers."""
    plain = np.array(values, dtype=np.float64)
    totals = plain.sum(axis=axis, keepdims=True)
    if not (np.isfinite(plain).all() and (plain >= 0).all() and (totals > 0).all()):
        plain = np.ones_like(plain)
        totals = plain.sum(axis=axis, keepdims=True)
    return np.asarray(plain / totals)


@contextmanager
def _double_precision() -> Iterator[None]:
    """For this thread and this block alone: shares need more than the seven digits that are jax's default."""
    import jax

    with jax.enable_x64(True):
        yield
