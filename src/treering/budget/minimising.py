"""The cost of a private minimiser: its sensitivity holds by theorem or by construction, never by the caller's claim.

Neighbours replace one entry. All quantities are public: the problem's constants, the method's parameters, the size n.
Floats are rounded up by 2^-40 of their size, which covers the handful of operations that make each of them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from treering.budget.cost import FREE, Cost, exponential, gaussian, laplace
from treering.domain.loss import Squared
from treering.domain.problem import (
    MOST_CANDIDATES,
    Descent,
    Method,
    Net,
    NoisyMoments,
    Perturbation,
    Problem,
    Refinement,
)
from treering.errors import GuaranteeError, ParameterError
from treering.params import exact_scale

SUMMED: Final = 4096
"""The solver sums gradients in blocks of this many entries, and the blocks exactly."""

_UP: Final = 1 + 2.0**-40


def minimising(problem: Problem, method: Method, size: int) -> Cost:
    """The cost of minimising ``problem`` by ``method`` on ``size`` entries; refuses what the method cannot do."""
    if size < 1:
        raise GuaranteeError("there are no entries yet: an empirical risk needs at least one")
    match method:
        case Perturbation():
            return _perturbing(problem, method, size)
        case Descent():
            return _descending(problem, method)
        case Net():
            return _choosing(problem, method)
        case NoisyMoments():
            return _summing(problem, method)


# -- output perturbation -----------------------------------------------------------------------------------------------


def _perturbing(problem: Problem, method: Perturbation, size: int) -> Cost:
    """The cost of noise on the rounded minimiser, whose integer coordinates move by v + r: ‖v‖₂ ≤ Δ₂/h, |r_j| ≤ 1.

    Its L2 sensitivity is Δ₂/h + √d, its L1 sensitivity √d·Δ₂/h + d.
    """
    moves = Fraction(perturbation_sensitivity(problem, method, size)) / exact_scale(method.pitch, "pitch")
    root = Fraction(math.sqrt(problem.dimension) * _UP)
    scale = exact_scale(method.scale, "scale")
    if method.noise == "laplace":
        return laplace(root * moves + problem.dimension, scale)
    return gaussian((moves + root) ** 2, scale)


def perturbation_sensitivity(problem: Problem, method: Perturbation, size: int) -> float:
    """Δ₂ = 2L/(λn) + 2r: how far the solver's result moves in L2 when one entry is replaced.

    The exact minimisers θ, θ′ of neighbouring objectives F, F′ over the ball satisfy ⟨∇F(θ), θ′−θ⟩ ≥ 0 and
    ⟨∇F′(θ′), θ−θ′⟩ ≥ 0, so by strong convexity λ‖θ−θ′‖² ≤ ⟨∇F(θ′)−∇F(θ), θ′−θ⟩ ≤ ⟨∇F(θ′)−∇F′(θ′), θ′−θ⟩ ≤
    (2L/n)·‖θ−θ′‖: the regulariser cancels. The solver is within r of the minimiser on every data set
    (`solver_distance`; in terms of a tolerance τ on the objective, r = √(2τ/λ)).
    """
    convexity = solver_convexity(problem, method)
    return (2 * problem.lipschitz / (convexity * size) + 2 * solver_distance(problem, method)) * _UP


def solver_convexity(problem: Problem, method: Perturbation) -> float:
    """λ: the sum of the problem's regularisation and the method's ridge."""
    convexity = problem.regularisation + method.ridge
    if convexity < 2.0**-40:
        raise ParameterError(
            "ridge", "must be positive (at least 2^-40): output perturbation needs a strongly convex objective"
        )
    return convexity


def solver_rate(problem: Problem, method: Perturbation) -> float:
    """q < 1: each pass multiplies the distance to the minimiser by at most this, on every data set.

    With S the mean of xxᵀ, the Hessian lies between mS + λI and MS + λI. The solver steps by P = (m+M)/2·S + λI, so
    that ‖P^{-½}(H − P)P^{-½}‖ ≤ max over s in [0, 1] of ½(M−m)s/(½(M+m)s + λ) = (M−m)/(M+m+2λ): projected gradient
    descent contracts by that in the norm ‖·‖_P, in which the projection is taken. The eigenvectors of P are
    computed with a backward error below 10d²·2^-52·‖P‖, which adds that over λ.
    """
    if not problem.loss.linear or not math.isfinite(problem.smoothness):
        raise ParameterError(
            "loss", f"{type(problem.loss).__name__} is not smooth: use descent, or a net in few dimensions"
        )
    steep, flat = problem.loss.smoothness(problem.radius), problem.loss.flatness(problem.radius)
    convexity = solver_convexity(problem, method)
    rate = (steep - flat) / (steep + flat + 2 * convexity) * _UP
    rate += 10 * problem.dimension**2 * 2.0**-52 * (steep + convexity) / convexity
    if rate >= 1 - 2.0**-30:
        raise GuaranteeError(f"the solver has no rate for a regularisation of {convexity:.3g}; use a larger one")
    return rate


def solver_distance(problem: Problem, method: Perturbation) -> float:
    """r: a bound on the distance of the solver's result from the minimiser on *every* data set, rounding included.

    In ‖·‖_P the first model is at most √T·D away, T = M + λ, D = radius + ‖start‖, and ‖·‖₂ ≤ ‖·‖_P/√λ. Each pass
    contracts by q and adds a rounding error, written as an error e of the gradient: √λ·‖e‖_{P^{-1}} ≤ ‖e‖. So
    r = q^K·√(T/λ)·D + e/(λ(1−q)).

    Rounding, u = 2^-53. Predictions: d·u·R, times M in the slopes, whose own rounding is 16u(L + M(R+2)). Sums in
    blocks of B: B·u·L; between blocks exact. Eigenvectors, the change of basis and back, and the secular equation:
    below 50d²·u·(T(R+2) + L) as an error of the linear term. In all e ≤ 2u·(B + 100d²)·(L + T(R+2)), with room.
    """
    convexity = solver_convexity(problem, method)
    rate = solver_rate(problem, method)
    steep = problem.loss.smoothness(problem.radius) + convexity
    first = problem.radius + (0.0 if method.start is None else min(problem.radius, math.hypot(*method.start)))
    rounding = 2.0**-52 * (SUMMED + 100 * problem.dimension**2) * (problem.lipschitz + steep * (problem.radius + 2))
    # A squared loss is solved in one pass: its rate is rounding alone.
    left = math.exp(method.iterations * math.log(rate)) * math.sqrt(steep / convexity) * first
    return (left + rounding / (convexity * (1 - rate))) * _UP


# -- noisy descent -----------------------------------------------------------------------------------------------------


def _descending(problem: Problem, method: Descent) -> Cost:
    """The cost of noisy descent: each step is a Gaussian mechanism on an integer sum of gradients; steps compose."""
    if method.schedule == "strong" and not problem.strong_convexity:
        raise ParameterError("schedule", "'strong' needs a problem with a positive regularisation")
    if method.schedule == "accelerated" and not math.isfinite(problem.smoothness):
        raise ParameterError("schedule", f"'accelerated' needs a smooth loss; {type(problem.loss).__name__} is not")
    one = gaussian(gradient_sensitivity(problem, method) ** 2, exact_scale(method.scale, "scale"))
    return Cost(None, method.steps * one.rho)


def largest_gradient(problem: Problem, method: Descent) -> int:
    """The bound on the norm of one entry's integer gradient, in units of 1/resolution: ⌊L·resolution⌋, by construction.

    The gradient of a linear loss is a slope, clipped to this, times features of norm at most 1; those of other losses
    are vectors, rounded towards zero and checked in integers.
    """
    return max(1, math.floor(problem.lipschitz * method.resolution))


def gradient_sensitivity(problem: Problem, method: Descent) -> Fraction:
    """How far the sum of gradients moves in L2 when one entry is replaced: twice the largest gradient."""
    return Fraction(2 * largest_gradient(problem, method), method.resolution)


# -- noisy moments -----------------------------------------------------------------------------------------------------


BESIDE: Final = Fraction(17, 24)
"""The scale of the noise on moments of two different features, as a part of the scale: a little more than 1/√2."""

MOMENTS: Final = Fraction(9, 2)
"""The square of the sensitivity of the moments, in the norm in which their noise is round."""


def _summing(problem: Problem, method: NoisyMoments) -> Cost:
    """The cost of noise on the moments: Σxxᵀ, of which each pair of features is released once, and Σyx.

    Noise of scale σ is added to the diagonal and to Σyx, and of scale σ·`BESIDE` ≥ σ/√2 to a moment of two different
    features, so that a replaced entry costs at most (‖ΔΣxxᵀ‖_F² + ‖ΔΣyx‖²)/(2σ²): each moment off the diagonal counts
    twice in the Frobenius norm. With u = ⟨x, x′⟩ that is

        ‖xxᵀ − x′x′ᵀ‖² + ‖yx − y′x′‖² ≤ ‖x‖⁴ + ‖x′‖⁴ − 2u² + ‖x‖² + ‖x′‖² + 2|u| ≤ 4 − 2u² + 2|u| ≤ 9/2,

    as |y| ≤ 1 and ‖x‖ ≤ 1; it is reached by unit vectors with u = ½ and labels 1 and −1.
    """
    if type(problem.loss) is not Squared:
        raise ParameterError("loss", f"{type(problem.loss).__name__} has no moments that tell all: use descent")
    return gaussian(MOMENTS, exact_scale(method.scale, "scale")) + _refining(method.refinement)


def _refining(refinement: Refinement | None) -> Cost:
    """The cost of all rounds. In each, a replaced entry moves two counts of residuals by one: 2/(2·errors²). It moves
    the sum of clipped residuals times features, which have norm at most c·1, by at most 2c, with noise of scale
    slopes·c: (2c)²/(2(slopes·c)²), whatever the c that the counts have led to. Everything composes adaptively."""
    if refinement is None:
        return FREE
    counts = gaussian(2, exact_scale(refinement.errors, "errors"))
    sums = gaussian(4, exact_scale(refinement.slopes, "slopes"))
    return Cost(None, refinement.rounds * (counts.rho + sums.rho))


# -- the exponential mechanism over a net ------------------------------------------------------------------------------


def _choosing(problem: Problem, method: Net) -> Cost:
    if problem.dimension > method.most_dimensions:
        raise ParameterError(
            "dimension",
            f"of a net is at most {method.most_dimensions}, not {problem.dimension}: its size grows as a power of it. "
            "Use output perturbation, or noisy descent under a promise with delta > 0",
        )
    if lattice_size(problem, method) > 64 * MOST_CANDIDATES:
        raise ParameterError("pitch", f"is too fine: at most {MOST_CANDIDATES:,} candidates are possible")
    return exponential(loss_sensitivity(problem, method), exact_scale(method.scale, "scale"))


def loss_sensitivity(problem: Problem, method: Net) -> Fraction:
    """How far a candidate's summed loss, relative to that of θ = 0, moves when one entry is replaced.

    That is the width of the range that integer losses are clipped to: it holds by construction. (The loss of θ = 0 is
    common to all candidates, and the regulariser to neighbours: neither changes the mechanism.)
    """
    return Fraction(loss_width(problem, method), method.resolution)


def loss_width(problem: Problem, method: Net) -> int:
    """The width of the range of losses, in units of 1/resolution: that at the radius, where it is largest."""
    low, high = problem.loss.range(np.array([problem.radius]))
    return math.ceil(float(high[0] - low[0]) * method.resolution * _UP) + 6


def lattice_size(problem: Problem, method: Net) -> int:
    """The number of lattice points in the cube around the ball: an upper bound on the number of candidates."""
    cover = method.pitch * math.sqrt(problem.dimension) / 2
    return int((2 * math.floor((problem.radius + cover) / method.pitch) + 1) ** problem.dimension)
