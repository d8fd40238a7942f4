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
from dataclasses import dataclass

from treering.budget.exact import probability
from treering.budget.minimising import lattice_size, solver_distance
from treering.domain.minimiser import Descent, Method, Net, Perturbation, Start
from treering.domain.problem import Problem

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
    """The excess risk of noisy projected gradient descent.

    Notation: K steps; σ = scale/n the noise of the mean gradient; D = R + ‖start‖; G the Lipschitz constant of F plus
    b, the most that rounding moves a mean gradient (each costs at most 2R·b, as models are within 2R of each other);
    θ* a minimiser of F, which does not depend on the noise.
    """
    steps = Steps.of(problem, method.steps, method.scale / size, method.resolution, method.start, beta)
    if method.schedule == "averaged":
        return steps.averaged(method.step_size)
    return steps.accelerated(method.step_size) if method.schedule == "accelerated" else steps.strong()


@dataclass(frozen=True, slots=True)
class Steps:
    """The quantities of `descent_bound`."""

    number: int
    sigma: float
    dimension: int
    radius: float
    first: float
    gradient: float
    smoothness: float
    convexity: float
    rounding: float
    beta: float

    @classmethod
    def of(cls, problem: Problem, number: int, sigma: float, resolution: int, start: Start, beta: float) -> Steps:
        """For a problem: slopes are rounded by at most 1/resolution, vectors by (√d + 2)/resolution."""
        rounding = (1.01 if problem.loss.linear else math.sqrt(problem.dimension) + 2) / resolution
        return cls(
            number,
            sigma,
            problem.dimension,
            problem.radius,
            problem.radius + (0.0 if start is None else math.hypot(*start)),
            problem.whole_lipschitz + rounding,
            problem.smoothness,
            problem.strong_convexity,
            rounding,
            float(probability(beta, "beta")),
        )

    def averaged(self, step: float | None = None) -> float:
        """The plain average of K+1 models, constant step η (None: the best one).

        Projection is nonexpansive: ‖θ_{k+1}−θ*‖² ≤ ‖θ_k−θ*‖² − 2η⟨g̃_k, θ_k−θ*⟩ + η²‖g̃_k‖², g̃_k = g_k + N_k. Sum,
        and use convexity (the last model's step is made up, with its exact gradient); N = K+1:

            N·excess ≤ D²/(2η) + η/2·(N·G² + Σ‖N_k‖²) + Σ⟨N_k, η·g_k − (θ_k − θ*)⟩ + 2NRb,

        where the last sum is at most σ(2R + ηG)√(2Kx) and Σ‖N_k‖² ≤ σ²(Kd + 2√(Kdx) + 2x), x = log(2/β).
        """
        x = math.log(2 / self.beta)
        models = self.number + 1
        norms = self.number * self.dimension + 2 * math.sqrt(self.number * self.dimension * x) + 2 * x
        stray = self.sigma * math.sqrt(2 * self.number * x) / models
        falling = self.first**2 / (2 * models)
        rising = (self.gradient**2 + self.sigma**2 * norms / models) / 2 + self.gradient * stray
        moved = 2 * math.sqrt(falling * rising) if step is None else falling / step + rising * step
        return moved + 2 * self.radius * (stray + self.rounding)

    def averaged_step(self) -> float:
        """The best constant step."""
        x = math.log(2 / self.beta)
        models = self.number + 1
        norms = self.number * self.dimension + 2 * math.sqrt(self.number * self.dimension * x) + 2 * x
        stray = self.sigma * math.sqrt(2 * self.number * x) / models
        rising = (self.gradient**2 + self.sigma**2 * norms / models) / 2 + self.gradient * stray
        return math.sqrt(self.first**2 / (2 * models) / rising)

    def accelerated(self, step: float | None = None) -> float:
        """Lan's method (2012), steps kγ, for an M-smooth F.

        With α_k = 2/(k+1) and Γ_k = 2/(k(k+1)), smoothness and convexity along the step give, for the averages a_k,

            F(a_k) − F* ≤ (1−α_k)(F(a_{k−1}) − F*) + α_k/(2kγ)·(‖θ_{k−1}−θ*‖² − ‖θ_k−θ*‖²)
                          − α_k⟨N_k, θ_{k−1}−θ*⟩ + α_k·kγ‖N_k‖²/(2(1−2Mγ)) + α_k·2Rb

        (Young's inequality on ⟨N_k, θ_k−θ_{k−1}⟩, as Mα_k·kγ ≤ 2Mγ < 1). Divide by Γ_k and sum: the first differences
        telescope to D²/(2γ), and with S = Σk², W = d·S + 2√(d·x·Σk⁴) + 2xK², x = log(2/β),

            excess ≤ 2/(K(K+1))·(D²/(2γ) + γσ²W/(2(1−2Mγ)) + 2Rσ√(2xS)) + 2Rb.

        The best γ is 1/(2M + σ√W/D), where the first two terms are MD² + Dσ√W.
        """
        spread, stray = self._accelerated_noise()
        best = self.smoothness * self.first**2 + self.first * spread
        if step is not None:
            room = 1 - 2 * self.smoothness * step
            if room <= 0:
                return math.inf
            best = self.first**2 / (2 * step) + step * spread**2 / (2 * room)
        return 2 / (self.number * (self.number + 1)) * (best + stray) + 2 * self.radius * self.rounding

    def accelerated_step(self) -> float:
        """The best γ."""
        return 1 / (2 * self.smoothness + self._accelerated_noise()[0] / self.first)

    def _accelerated_noise(self) -> tuple[float, float]:
        """σ√W, and the martingale."""
        k = float(self.number)
        x = math.log(2 / self.beta)
        squares = k * (k + 1) * (2 * k + 1) / 6
        fourths = squares * (3 * k * k + 3 * k - 1) / 5
        weight = self.dimension * squares + 2 * math.sqrt(self.dimension * x * fourths) + 2 * x * k * k
        return self.sigma * math.sqrt(weight), 2 * self.radius * self.sigma * math.sqrt(2 * x * squares)

    def strong(self) -> float:
        """Steps 2/(λ(k+1)), models 1..N averaged with weights k, N = K+1, for a λ-strongly convex F.

        k times [excess_k ≤ ⟨g_k, θ_k−θ*⟩ − λ/2·‖θ_k−θ*‖²] and the step's inequality telescope to 0:

            Σ k·excess_k ≤ Σ ‖g̃_k‖²/λ − Σ k⟨N_k, θ_k−θ*⟩ + N(N+1)Rb.

        The martingale is at most (s/2)σ²Σk²‖θ_k−θ*‖² + x/s; with s = λ/(2Kσ²) half of the left side pays for the first
        part, as excess_k ≥ λ/2·‖θ_k−θ*‖². And Σ‖g̃_k‖² ≤ N·G² + 2Gσ√(2Kx) + σ²(Kd + 2√(Kdx) + 2x). So

            excess ≤ 4/(λN(N+1))·(N·G² + 2Gσ√(2Kx) + σ²(Kd + 2√(Kdx) + 2x) + 2Kσ²x) + 4Rb,    x = log(3/β).
        """
        if not self.convexity:
            return math.inf
        x = math.log(3 / self.beta)
        k, models = self.number, self.number + 1
        norms = k * self.dimension + 2 * math.sqrt(k * self.dimension * x) + 2 * x + 2 * k * x
        cross = 2 * self.gradient * self.sigma * math.sqrt(2 * k * x)
        total = models * self.gradient**2 + cross + self.sigma**2 * norms
        return 4 / (self.convexity * models * (models + 1)) * total + 4 * self.radius * self.rounding


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
