"""The privacy cost of noise, and of counts and sums of groups: what several operations share.

A cost is derived from noise scales and sensitivity, here and in the files of operations, and nowhere else. Neighbours
replace one row. A query of weight scale W and spread d (largest weight less smallest) moves by at most d grid units and
gets noise of W times the stated scale: relative to its noise it moves by r = d/W rows, 1 for a counting query and 0 for
a constant one.
"""

from __future__ import annotations

from fractions import Fraction

from treering.budget.cost import FREE, Cost, gaussian, laplace, pure
from treering.budget.promise import Budget
from treering.domain.sums import Capped, Kept, Sums
from treering.noise import Laplace, Noise
from treering.params import exact_scale, positive


def noisy(ratio: Fraction, noise: Noise) -> Cost:
    """A number that moves by at most ``ratio`` rows: r/s pure, (r/s)²/2 zCDP for Laplace noise; r²/(2σ²) zCDP for
    Gaussian."""
    if isinstance(noise, Laplace):
        return laplace(ratio, exact_scale(noise.scale, "scale"))
    # A constant query reveals nothing, so it is free under either kind of promise.
    return gaussian(ratio**2, positive(noise.scale, "scale")) if ratio else FREE


def combining(groups: int, weight: int, noise: Noise, sums: Kept | None = None) -> Cost:
    """Groups whose rows are counted ``weight`` times: a replaced row moves that from one group to another.

    So two numbers move by |w| each: 2|w|/s pure, w²/s² zCDP for Laplace noise; w²/σ² zCDP for Gaussian. If there is a
    single group, one number moves: half of it. With ``sums`` see `summing` and `capping`.
    """
    if isinstance(sums, Capped):
        return capping(sums, weight, noise)
    if sums is not None:
        return summing(sums, weight, noise)
    one = noisy(Fraction(abs(weight)), noise)
    return one if groups == 1 else one + one


def summing(sums: Sums, weight: int, noise: Noise) -> Cost:
    """Sums of u, |u| ≤ R, and R times the rows if the counts come too, each ``weight`` times.

    A row replaced within its group moves that group's sum by at most 2R. One that leaves a group for another moves the
    sums of both by at most R each, and R times their rows by R each: L1 distance at most 2R without the counts and 4R
    with them, squared L2 distance at most 4R² in every case, and never less for a single group. So it is 2R|w|/s or
    4R|w|/s pure, and 4R²w²/(2σ²) = 2R²w²/σ² zCDP for Gaussian noise.
    """
    moved = Fraction(2 * sums.reach * abs(weight))
    return noisy(2 * moved if sums.counts and isinstance(noise, Laplace) else moved, noise)


def capping(capped: Capped, weight: int, noise: Noise) -> Cost:
    """What a person pays for the first rows of each person, each ``weight`` times; ``operations/persons.py`` has the
    proof. It is stated as if each of the k rows that the person may have paid for itself: k² of it are what the person
    loses, 2qC·w²/(2σ²) zCDP; for Laplace noise k of it, 2C|w|/s pure."""
    if isinstance(noise, Laplace):
        return laplace(
            Fraction(2 * capped.most * capped.reach * abs(weight), capped.limit), exact_scale(noise.scale, "scale")
        )
    return gaussian(Fraction(2 * capped.moved * weight**2, capped.limit**2), positive(noise.scale, "scale"))


def leaf(groups: int, room: int, noise: Noise, budget: Budget, sums: Kept | None = None) -> Cost:
    """What each row of a leaf may cost over all releases of its segment, whatever their weights w, with the ``room``
    that they have: Σ|w| in a pure budget, Σw² in a zCDP one. Either cost is proportional to that sum. (What a person
    pays for a whole series is stated with it.)"""
    amount = sums.price if isinstance(sums, Capped) else room * budget.amount(combining(groups, 1, noise, sums))
    return pure(amount) if budget.kind == "pure" else Cost(None, amount)
