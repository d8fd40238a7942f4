"""Exact samplers from fair coins (Canonne, Kamath and Steinke 2020): integers only, no float, no rounded probability.

*Formal guarantee.* For a positive rational scale s, `laplace` draws k with probability exactly (1−p)/(1+p)·p^|k| where
p = e^{−1/s}, and `gaussian` draws k with probability exactly ∝ e^{−k²/(2s²)}. All draws are independent. A float stands
for its exact binary value. What is assumed is that the operating system's bits are fair and independent.

*Proof*, from the bottom up. A draw that is not kept is made anew from fresh bits, which leaves all ratios as they are.

- `_coin` compares a uniform real number x in [0, 1) with a rational p, and reads only as many words of x as that takes:
  for its first word w, x = (w + x')/2^64 is below p if and only if x' is below p' = 2^64·p − w, where x' is uniform
  again and independent of w. That is decided once p' is outside of (0, 1). At most one w in 2^64 leaves it inside.
- `_decays` takes coins of γ/1, γ/2, γ/3 and so on until one fails. The first n all succeed with probability γ^n/n!, so
  the first to fail has an odd number with probability 1 − γ + γ²/2! − γ³/3! + … = e^{−γ}.
- `_signed`, for s = t/b: u, uniform below t, is kept with probability e^{−u/t}. Then v counts successes of probability
  e^{−1} up to a failure. So the pair (u, v) has probability ∝ e^{−(u + t·v)/t}, and x = u + t·v, which every integer
  from 0 on is for one pair, has probability ∝ e^{−x/t}. Its quotient m = ⌊x/b⌋ is the same for b numbers x in a row,
  the first of them b·m: probability ∝ e^{−b·m/t} = e^{−m/s}. The sign is fair, and −0 is not kept, so 0 counts for one
  sign like every other k: probability ∝ e^{−|k|/s}.
- `_bell`, for s² = σ²: k from `_signed` at the integer scale t = ⌊σ⌋ + 1 is kept with probability e^{−γ} where
  γ = (|k| − σ²/t)²/(2σ²) = k²/(2σ²) − |k|/t + σ²/(2t²). The product with e^{−|k|/t} is ∝ e^{−k²/(2σ²)}. For γ above 1,
  e^{−γ} is the probability of ⌊γ⌋ successes of e^{−1} and one of the rest, all independent.

*Secrets.* Bits are read from the operating system for one call of `laplace` or `gaussian`, and unused ones are dropped
when it returns. Nothing is kept between calls, so there is nothing that a forked child could draw again.

*Timing.* How long a draw takes depends on its value: timing is not defended. The guarantee is about values alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from struct import Struct
from typing import Final, TypeAlias

Words: TypeAlias = Callable[[], int]
"""A source of random words: each call gives an integer uniform below 2^`_BITS`, independent of all others."""

_BITS: Final = 64
_READ: Final = Struct("=32Q")
"""The words of one system call, enough for nearly every draw: the call costs as much as ten coins."""


def laplace(scale: float | Fraction, count: int) -> list[int]:
    """``count`` independent draws of P(X = k) = (1−p)/(1+p)·p^|k|, with p = e^{−1/scale}, for a positive finite scale.

    >>> laplace(0.001, 3)
    [0, 0, 0]
    """
    top, bottom = scale.as_integer_ratio()
    word = _fair_words().__next__
    return [_signed(top, bottom, word) for _ in range(count)]


def gaussian(scale: float | Fraction, count: int) -> list[int]:
    """``count`` independent draws of P(X = k) ∝ e^{−k²/(2·scale²)}, for a positive finite scale.

    >>> gaussian(0.001, 3)
    [0, 0, 0]
    """
    top, bottom = scale.as_integer_ratio()
    word = _fair_words().__next__
    return [_bell(top, bottom, word) for _ in range(count)]


def subset(size: int, number: int) -> list[int]:
    """``number`` different integers below ``size``, increasing; every set of so many is equally likely.

    They are drawn one by one, and one that is there already is not kept: the next new one is uniform on all others.

    >>> subset(3, 3)
    [0, 1, 2]
    """
    word, chosen = _fair_words().__next__, set[int]()
    while len(chosen) < min(number, size):
        chosen.add(_below(size, word))
    return sorted(chosen)


def _fair_words() -> Iterator[int]:
    """PRIVATE: uniform 64-bit words from the operating system. Whoever knows them knows the noise."""
    while True:
        yield from _READ.unpack(os.urandom(_READ.size))


def _signed(top: int, bottom: int, word: Words) -> int:
    """An integer k with probability ∝ e^{−|k|·bottom/top}."""
    while True:
        drawn = _below(top, word)
        if not _decays(drawn, top, word):
            continue
        while _decays(1, 1, word):
            drawn += top
        size = drawn // bottom
        if word() & 1:
            return size
        if size:
            return -size


def _bell(top: int, bottom: int, word: Words) -> int:
    """An integer k with probability ∝ e^{−k²/(2σ²)}, σ = top/bottom."""
    scale = top // bottom + 1
    # γ as one fraction: its numerator is the square of |k|·unit − centre.
    unit, centre = scale * bottom**2, top**2
    denominator = 2 * centre * scale * unit
    while True:
        drawn = _signed(scale, 1, word)
        whole, rest = divmod((abs(drawn) * unit - centre) ** 2, denominator)
        if all(_decays(1, 1, word) for _ in range(whole)) and _decays(rest, denominator, word):
            return drawn


def _decays(top: int, bottom: int, word: Words) -> bool:
    """True with probability e^{−top/bottom}, for 0 ≤ top ≤ bottom."""
    trial = 1
    while _coin(top, bottom * trial, word):
        trial += 1
    return trial % 2 == 1


def _coin(top: int, bottom: int, word: Words) -> bool:
    """True with probability top/bottom; never if that is 0 or less, always if it is 1 or more."""
    while 0 < top < bottom:
        top = (top << _BITS) - word() * bottom
    return top > 0


def _below(end: int, word: Words) -> int:
    """An integer uniform on 0, …, end − 1."""
    while True:
        span, drawn = 1 << _BITS, word()
        while span < end:
            span, drawn = span << _BITS, drawn << _BITS | word()
        # Of the span, the part beyond a multiple of the end is not kept: all remainders are then equally likely.
        if drawn < span - span % end:
            return drawn % end
