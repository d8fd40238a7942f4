"""Exact integer noise, drawn at once or ahead of need. With ``select``, the only source of private randomness.

*Formal guarantees.* Every draw is independent and has exactly the stated probabilities, for the scale's exact binary
value. No probability is ever rounded. So integers of L1 sensitivity Δ plus `Laplace` noise of scale s are (Δ/s)-DP, and
integers of L2 sensitivity Δ plus `Gaussian` noise of scale s are Δ²/(2s²)-zCDP.

Two samplers keep this, both after Canonne, Kamath and Steinke (2020), and both from the operating system's bits. Which
of them draws depends on public numbers alone:

- more than `FEW` draws, at a scale for which it can: ``clocks``, in whole arrays;
- otherwise: ``coins``, one by one, in integers only.

A draw beyond 64 bits would be refused. At scales of at most `LARGEST_SCALE` a draw leaves ±2^60 with probability below
e^{−4,000}: neither that, nor an overflow when noise is added to counts that leave it room, will ever happen.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Final, assert_never
from weakref import WeakSet

import numpy as np

from treering.arrays import Ints
from treering.errors import ParameterError
from treering.noise import Gaussian, Laplace, Noise
from treering.params import at_least, exact_scale
from treering.trusted.samplers import clocks, coins
from treering.trusted.sealed import Sealed

LARGEST_SCALE: Final = 2.0**48
"""The largest scale that is drawn, a query's weight scale W included."""

FEW: Final = 12
"""Up to this many draws are drawn one by one: a call to the sampler of arrays takes as long as that."""

FIRST_BLOCK: Final = 1
LARGEST_BLOCK: Final = 1024
"""How many draws are made ahead: at first, and at most."""


def draw_laplace(scale: float, count: int) -> Ints:
    """``count`` independent draws of P(X = k) = (1−p)/(1+p)·p^|k|, with p = e^{−1/scale}."""
    return draw(Laplace(scale), 1, count)


def draw_gaussian(scale: float, count: int) -> Ints:
    """``count`` independent draws of P(X = k) ∝ e^{−k²/(2·scale²)}."""
    return draw(Gaussian(scale), 1, count)


def draw(noise: Noise, factor: int, count: int) -> Ints:
    """``count`` independent draws of ``noise`` at its scale times ``factor``, a query's weight scale W."""
    _check_count(count)
    scale = check_scale(noise.scale, factor)
    # A scale may be given as another kind of number: the samplers get a float.
    widened = noise if factor == 1 and type(noise.scale) is float else replace(noise, scale=scale)
    return np.array(_sample(widened, count), dtype=np.int64)


@lru_cache(maxsize=256, typed=True)
def check_scale(scale: float, factor: int) -> float:
    """The sampler's scale, ``scale`` (in rows) times ``factor`` (a weight scale W); refuses one that cannot be drawn.

    The product is exact if a float can hold it (always, for a power of two), otherwise the next float above: more
    noise, never less, so a cost derived from ``scale`` and a sensitivity of W still bounds the loss.

    >>> check_scale(0.75, 65536)
    49152.0
    """
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ParameterError("factor", f"must be a positive whole number, not {factor}")
    if factor == 1 and type(scale) is float and sys.float_info.min <= scale <= LARGEST_SCALE:
        return scale  # as below, without the rationals
    product = exact_scale(scale, "scale") * factor
    if product > LARGEST_SCALE:
        raise ParameterError("scale", f"times the weight scale must be at most 2^48: {scale} times {factor} is more")
    return at_least(product)


def check_noise(noise: Noise, factor: int) -> None:
    """Refuse noise that cannot be drawn at ``factor`` times its scale, or of a type that could have other methods."""
    if type(noise) is not Laplace and type(noise) is not Gaussian:
        raise ParameterError("noise", f"must be Laplace or Gaussian, not a {type(noise).__name__}")
    check_scale(noise.scale, factor)


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ParameterError("count", f"must be a whole number, 0 or more, not {count}")


def _sample(noise: Noise, count: int) -> Ints | list[int]:
    singly = count <= FEW or not clocks.LEAST <= noise.scale <= clocks.LARGEST
    match noise:
        case Laplace():
            return coins.laplace(noise.scale, count) if singly else clocks.laplace(noise.scale, count)
        case Gaussian():
            return coins.gaussian(noise.scale, count) if singly else clocks.gaussian(noise.scale, count)
        case _:
            assert_never(noise)


class Ahead(Sealed):
    """Noise drawn ahead of need, because a call costs as much as several draws. No draw is handed out twice.

    The stock is for the latest factor only: a call with another factor drops it. Unused noise is as secret as the rows
    (whoever knows it reads the next answer exactly), so a forked child starts without it. Blocks double from
    `FIRST_BLOCK` to `LARGEST_BLOCK`: the stock is smaller than what was taken before, so little noise is wasted when it
    is dropped early, and long use is served by large blocks. Dropping noise costs no privacy: nothing depended on it.

    Not safe for threads by itself: the kernel that owns it holds a lock.
    """

    __slots__ = ("__weakref__", "_block", "_factor", "_noise", "_process", "_stock")

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._factor = 1
        self.drop()
        _alive.add(self)

    def drop(self) -> None:
        """Drop the stock, and begin with small blocks again."""
        self._stock: Ints = np.empty(0, dtype=np.int64)
        self._block = FIRST_BLOCK
        self._process = os.getpid()

    def take(self, factor: int, count: int) -> Ints:
        """``count`` fresh draws at ``factor`` times the scale, as by `draw`."""
        _check_count(count)
        # The process id is checked too: the fork hook below does not see a fork made by a native library.
        if factor != self._factor or os.getpid() != self._process:
            check_scale(self._noise.scale, factor)
            self.drop()
            self._factor = factor
        if count >= LARGEST_BLOCK or (count >= self._block and len(self._stock) == 0):
            return self._fresh(count)
        if count > len(self._stock):
            self._stock = np.concatenate((self._stock, self._fresh(count)))
        # A copy: a view would carry the rest of the stock along as its base.
        taken, self._stock = self._stock[:count].copy(), self._stock[count:]
        return taken

    def take_each(self, factors: Ints) -> Ints:
        """A fresh draw for each of these factors."""
        if len(factors) == 1:
            return self.take(int(factors[0]), 1)
        drawn = np.empty(len(factors), dtype=np.int64)
        for factor in np.unique(factors):
            chosen = factors == factor
            drawn[chosen] = self.take(int(factor), int(chosen.sum()))
        return drawn

    def _fresh(self, count: int) -> Ints:
        """A block of draws, or ``count`` if that is more."""
        wanted = max(count, self._block)
        self._block = min(2 * self._block, LARGEST_BLOCK)
        return draw(self._noise, self._factor, wanted)


class Answering(Sealed):
    """Noise for answers, drawn ahead while consecutive questions get the same noise; another noise drops the stock."""

    __slots__ = ("_ahead", "_noise")

    def __init__(self) -> None:
        self._noise: Noise | None = None

    def take(self, noise: Noise, scales: Ints) -> Ints:
        """A fresh draw for each weight scale W, at W times the scale of ``noise``."""
        if noise is not self._noise and noise != self._noise:
            self._noise, self._ahead = noise, Ahead(noise)
        return self._ahead.take_each(scales)


_alive: Final[WeakSet[Ahead]] = WeakSet()


def _drop_all() -> None:
    for ahead in _alive:
        ahead.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all)
