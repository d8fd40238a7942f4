"""What each private minimiser achieves on one database: proven excess risk, constants and rounding included.

The excess risk of a model θ is F(θ) − min F over the ball, F the problem's objective (its own regularisation included).
Bounds hold with probability at least 1 − beta over the noise, for every data set of the given size.

Noise. Discrete Gaussian noise of scale σ is σ-subgaussian (Canonne, Kamath and Steinke 2020, Corollary 17), so

- (martingale) Σ⟨N_k, v_k⟩ ≤ σ·V·√(2x) but with probability e^{−x}, if ‖v_k‖ ≤ V_k is known before N_k is drawn and
  V² = ΣV_k²; and Σ⟨N_k, v_k⟩ ≤ (s/2)·σ²·Σ‖v_k‖² + x/s for any fixed s;
- (norms) Σ a_i·N_i² ≤ σ²·(‖a‖₁ + 2‖a‖₂√x + 2‖a‖_∞x) but with probability e^{−x}: E e^{sN²} ≤ (1−2sσ²)^{−½} for
  every subgaussian N, and the rest is Laurent and Massart (2000, Lemma 1).
"""

from __future__ import annotations

import math

from treering.budget.minimising import lattice_size, solver_distance
from treering.domain.minimiser import Descent, Method, Net, Perturbation
from treering.domain.problem import Problem
from treering.params import probability
from treering.theory.erm.steps import Courses, Steps

# -- output perturbation -----------------------------------------------------------------------------------------------


def perturbation_bound(problem: Problem, method: Perturbation, beta: float) -> float:
    """The excess risk of output perturbation; its cost is that of ``budget/minimising``.

    The released model is within E = r + h√d/2 + h‖N‖ of the minimiser θ* of F + ridge/2·‖θ‖² (solver, rounding, noise;
    the last projection brings it no further away), whatever the size. F(θ*) exceeds min F by at most ridge·R²/2, and F
    is (L+λR)-Lipschitz:

        excess ≤ (L + λR)·E + ridge·R²/2.

    If (λ + ridge)·R ≥ L, the minimiser over all of space lies in the ball (its gradient is 0, so (λ+ridge)‖θ*‖ ≤ L),
    and by smoothness also excess ≤ (M + λ + ridge)/2·E² + ridge·R²/2: the square.
    """
    displaced = (
        solver_distance(problem, method)
        + method.pitch * math.sqrt(problem.dimension) / 2
        + method.pitch * noise_norm(method.noise, method.scale, problem.dimension, beta)
    )
    return displacement_bound(problem, method.ridge, displaced)


def displacement_bound(problem: Problem, ridge: float, displaced: float) -> float:
    """`perturbation_bound` for a given E."""
    loss = problem.whole_lipschitz * displaced
    if (problem.regularisation + ridge) * problem.radius >= problem.lipschitz:
        loss = min(loss, (problem.smoothness + ridge) / 2 * displaced**2)
    return loss + ridge / 2 * problem.radius**2


def noise_norm(noise: str, scale: float, dimension: int, beta: float) -> float:
    """A bound on ‖N‖₂ that holds with probability 1 − beta, for independent integer noise in each coordinate.

    Gaussian: (norms). Laplace: |N_j| is at most 1 plus an exponential variable of the same scale in distribution, as
    P(|N_j| ≥ k) = 2p^k/(1+p) ≤ p^{k−1}; so ‖N‖₂ ≤ ‖N‖₁ ≤ d + s·(d + √(2dx) + x), by the tail of a gamma variable, and
    ‖N‖₂ ≤ √d·(1 + s·log(d/β)), by the union bound; x = log(1/β).
    """
    x = math.log(1 / float(probability(beta, "beta")))
    if noise == "gaussian":
        return scale * math.sqrt(dimension + 2 * math.sqrt(dimension * x) + 2 * x)
    summed = dimension + scale * (dimension + math.sqrt(2 * dimension * x) + x)
    return min(summed, math.sqrt(dimension) * (1 + scale * (math.log(dimension) + x)))


# -- descent -----------------------------------------------------------------------------------------------------------


def descent_bound(problem: Problem, method: Descent, size: int, beta: float) -> float:
    """The excess risk of noisy projected gradient descent: `treering.theory.erm.steps` has the proofs."""
    courses = Courses.of([method.steps], [method.rise])
    steps = Steps.of(problem, courses, method.scale / size, method.resolution, method.start, beta)
    if method.schedule == "averaged":
        return float(steps.averaged(method.step_size)[0, 0])
    if method.schedule == "accelerated":
        return float(steps.accelerated(method.step_size)[0, 0])
    return float(steps.strong()[0, 0])


# -- the net -----------------------------------------------------------------------------------------------------------


def net_bound(problem: Problem, method: Net, size: int, beta: float) -> float:
    """The excess risk of the exponential mechanism over a net.

    Some candidate is within a = pitch·√d/2 of the best model, so at most (L + λR)·a worse. A candidate that is worse
    than the best one by more than scale·(log|net| + log(1/β)) in the sum is drawn with probability below β/|net|,
    and there are fewer than |net| of them. Rounding the losses costs at most 2/resolution in the mean.
    """
    cover = method.pitch * math.sqrt(problem.dimension) / 2
    draw = method.scale * (math.log(net_size(problem, method)) + math.log(1 / float(probability(beta, "beta"))))
    return problem.whole_lipschitz * cover + draw / size + 2 / method.resolution


def net_size(problem: Problem, method: Net) -> float:
    """An upper bound on the number of candidates: the cube's lattice points, and the volume that the cells of those
    near the ball fill."""
    d = problem.dimension
    unit_ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
    filled = unit_ball * (problem.radius / method.pitch + math.sqrt(d)) ** d
    return float(min(lattice_size(problem, method), filled))


def bound(problem: Problem, method: Method, size: int, beta: float) -> float:
    """The excess risk of a method, whichever it is."""
    match method:
        case Perturbation():
            return perturbation_bound(problem, method, beta)
        case Descent():
            return descent_bound(problem, method, size, beta)
        case Net():
            return net_bound(problem, method, size, beta)
