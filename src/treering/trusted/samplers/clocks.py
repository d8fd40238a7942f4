"""Exact samplers for many draws at once: floats decide what they can decide for certain, further random bits the rest.

*Formal guarantee.* For a float scale s from `LEAST` to `LARGEST`, which stands for its exact binary value, `laplace`
draws k with probability exactly (1−p)/(1+p)·p^|k| where p = e^{−1/s}, and `gaussian` draws k with probability exactly
∝ e^{−k²/(2s²)}. All draws are independent. No error of the floats changes any probability, as long as NumPy's logarithm
is within 32 units in the last place (a test finds less than 2), its other arithmetic is IEEE 754's, and the logarithm
of ``decimal`` is within 1,000 units (it is documented to be within one half). The operating system's bits must be fair
and independent.

*Proof.* A clock rings at E = −ln U, for U uniform in [0, 1): P(E ≥ x) = P(E > x) = e^{−x} for every x ≥ 0. A draw that
is not kept is made anew from fresh bits, which leaves all ratios as they are.

- `laplace`: m = ⌊s·E⌋ is at least j if and only if E ≥ j/s, which has probability e^{−j/s}. So m has probability
  ∝ e^{−m/s}. The sign is fair, and −0 is not kept, so 0 counts for one sign like every other k: ∝ e^{−|k|/s}.
- `gaussian`, for s = σ (after Canonne, Kamath and Steinke 2020): m as above, at the integer scale t = ⌊σ⌋ + 1, is kept
  if another clock rings after γ = (m − σ²/t)²/(2σ²) = m²/(2σ²) − m/t + σ²/(2t²), which has probability e^{−γ}. The
  product with e^{−m/t} is ∝ e^{−m²/(2σ²)}. The sign as above.
- Each of these decisions is a function of a uniform real number U. Of U its first word W is drawn: U lies in
  [W, W + 1)/2^64, and E between two bounds. If the whole interval leads to one decision, that is U's decision, whatever
  the rest of U is. If not, *the same* U gets another word (`_brackets`), until it does. So the decision made is always
  the decision of U. How early it was made, and how much wider than necessary the bounds were, has no part in it.
- The first bounds are floats; let u = 2^−53. *Bounds of E*, for W ≥ 1: rounding W moves −ln(W/2^64) by at most 2u, and
  the logarithm adds 64u·e to its result e. U reaches up to (W + 1)/2^64, which takes ln(1 + 1/W) ≤ 1/W from E. To form
  the bounds and multiply them by s takes a handful of roundings, at most 10u·(1 + e) together. All of this is less than
  1/W + `_SLACK`·(1 + e), by which the bounds keep away from e: `_SLACK` is 128u. For W = 0 the upper bound is ∞. Floors
  of floats below 2^53 are exact.
- *Bounds of γ* = z²/2, z = (m − c)/σ, c = σ²/t < σ. As floats, m is off by a factor 1 ± u, c by (1 ± u)², and the
  difference and the quotient by 1 ± u each. With m ≤ |m − c| + c, z is off by 3u·(1 + |z|), to first order. So γ, with
  another rounding, is off by u·(3|z| + 7γ) ≤ u·(2 + 10γ), for |z| ≤ 1/2 + γ: far less than `_SLACK`·(1 + γ).

*Secrets.* Words are read from the operating system for one call, and unused ones are dropped when it returns. Nothing
is kept between calls, so there is nothing that a forked child could draw again.

*Timing.* How long a draw takes depends on its value: timing is not defended. The guarantee is about values alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from treering.arrays import Bytes, Flags, Floats, Ints, Words

LEAST: Final = 2.0**-10
LARGEST: Final = 2.0**38
"""The scales that can be drawn. Far below, squares would overflow; above, the first bounds decide too rarely."""

Tried: TypeAlias = tuple[Ints, Flags]
"""Draws, and which of them are kept."""

_BITS: Final = 64
_SLACK: Final = 2.0**-46
_AT_ONCE: Final = 2**15
"""The most draws that are tried together, so that their arrays stay in the processor's cache."""


class Clocks(NamedTuple):
    """PRIVATE: first words of uniform numbers U, and bounds of E = −ln U for each."""

    words: Words
    low: Floats
    high: Floats


def laplace(scale: float, count: int) -> Ints:
    """``count`` independent draws of P(X = k) = (1−p)/(1+p)·p^|k|, with p = e^{−1/scale}.

    >>> laplace(0.001, 3).tolist()
    [0, 0, 0]
    """
    return _first(count, lambda tries: _signed(_floors(scale, _clocks(tries))))


def gaussian(scale: float, count: int) -> Ints:
    """``count`` independent draws of P(X = k) ∝ e^{−k²/(2·scale²)}.

    >>> gaussian(0.001, 3).tolist()
    [0, 0, 0]
    """
    return _first(count, lambda tries: _bells(scale, tries))


def _first(count: int, trying: Callable[[int], Tried]) -> Ints:
    """The first ``count`` draws that are kept."""
    drawn = [np.empty(0, dtype=np.int64)]
    while (missing := count - sum(map(len, drawn))) > 0:
        values, kept = trying(min(missing + missing // 2 + 8, _AT_ONCE))
        drawn.append(values[kept][:missing])
    return np.concatenate(drawn)


def _bells(scale: float, tries: int) -> Tried:
    """Draws of probability ∝ e^{−k²/(2·scale²)}, if they are kept."""
    sigma, wide = Fraction(scale), math.floor(scale) + 1
    sizes = _floors(float(wide), _clocks(tries))
    limits = np.square((sizes - scale * scale / wide) / scale) / 2
    stays = _outlast(_clocks(tries), limits, lambda place: (int(sizes[place]) / sigma - sigma / wide) ** 2 / 2)
    values, kept = _signed(sizes)
    return values, kept & stays


def _signed(sizes: Ints) -> Tried:
    """Sizes with fair signs; −0 is not kept."""
    minus = _bytes(len(sizes)) & 1 == 1
    return np.where(minus, -sizes, sizes), (sizes != 0) | ~minus


def _floors(scale: float, clocks: Clocks) -> Ints:
    """⌊scale·E⌋ of each clock."""
    floors = np.floor(scale * clocks.low)
    sizes = floors.astype(np.int64)
    for place in np.flatnonzero(np.floor(scale * clocks.high) != floors).tolist():
        sizes[place] = _floor(Fraction(scale), int(clocks.words[place]))
    return sizes


def _outlast(clocks: Clocks, limits: Floats, exact: Callable[[int], Fraction]) -> Flags:
    """Which clocks ring after their limits. ``limits`` are near enough to those that ``exact`` gives for a place."""
    slack = _SLACK * (1 + limits)
    later = clocks.low > limits + slack
    for place in np.flatnonzero(~later & (clocks.high > limits - slack)).tolist():
        later[place] = _outlasts(exact(place), int(clocks.words[place]))
    return later


def _clocks(count: int) -> Clocks:
    """Fresh clocks, with the bounds that their first words give."""
    words = _words(count)
    nonzero = np.maximum(words, 1).astype(np.float64)
    rings = -np.log(nonzero / 2.0**_BITS)
    slack = 1 / nonzero + _SLACK * (1 + rings)
    return Clocks(words, rings - slack, np.where(words == 0, np.inf, rings + slack))


def _words(count: int) -> Words:
    """PRIVATE: uniform words from the operating system. Whoever knows them knows the noise."""
    return _bytes(_BITS // 8 * count).view(np.uint64)


def _bytes(count: int) -> Bytes:
    """PRIVATE: the same as bytes."""
    return np.frombuffer(os.urandom(count), dtype=np.uint8)


# -- where the first word does not decide ------------------------------------------------------------------------------


def _floor(scale: Fraction, word: int) -> int:
    """⌊scale·E⌋ of the clock that has this first word."""
    floors = ((math.floor(scale * low), math.floor(scale * high)) for low, high in _brackets(word))
    return next(low for low, high in floors if low == high)


def _outlasts(limit: Fraction, word: int) -> bool:
    """Whether the clock that has this first word rings after a limit."""
    return next(low > limit for low, high in _brackets(word) if low > limit or high <= limit)


def _brackets(word: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Bounds of E for one number U with this first word: each next pair has read one more word of U."""
    bits, read = _BITS, word
    while True:
        if read:
            # As above: E is at most 1/read below the logarithm, which is not off by as much as 1/read.
            ring = _ring(read, bits)
            yield ring - Fraction(2, read), ring + Fraction(2, read)
        bits, read = bits + _BITS, read << _BITS | int(_words(1)[0])


def _ring(read: int, bits: int) -> Fraction:
    """−ln(read/2^bits), to within 2^−bits."""
    context = Context(prec=bits // 2 + 12)
    return -Fraction(context.ln(context.divide(Decimal(read), Decimal(2**bits))))
