"""Excess risk of each private minimiser on one database: output perturbation, noisy gradient descent, and a net.

The excess risk of a model θ is F(θ) − min F over the ball, F the problem's objective (its own regularisation included).
Bounds are proven, constants and rounding included: they hold with probability at least 1 − beta over the noise, for
every data set of the given size.

Noise. Discrete Gaussian noise of scale σ is σ-subgaussian (Canonne, Kamath and Steinke 2020, Corollary 17), so

- (martingale) Σ⟨N_k, v_k⟩ ≤ σ·V·√(2x) but with probability e^{−x}, if ‖v_k‖ ≤ V_k is known before N_k is drawn and
  V² = ΣV_k²; and Σ⟨N_k, v_k⟩ ≤ (s/2)·σ²·Σ‖v_k‖² + x/s for any fixed s;
- (norms) Σ a_i·N_i² ≤ σ²·(‖a‖₁ + 2‖a‖₂√x + 2‖a‖_∞x) but with probability e^{−x}: E e^{sN²} ≤ (1−2sσ²)^{−½} for
  every subgaussian N, and the rest is Laurent and Massart (2000, Lemma 1).

**Noisy projected gradient descent** has three schedules (`Steps`), bounded for many numbers of steps at once. Notation:
K steps; σ the noise of a mean gradient's coordinate; D = R + ‖start‖ ≥ ‖θ_0 − θ*‖; G the Lipschitz constant of F plus
b, the most that rounding moves a mean gradient (each costs at most 2R·b, as models are within 2R of each other); θ* a
minimiser of F, which does not depend on the noise; v_k = θ_k − θ*; x = log(2/β), unless said otherwise.

*Rising steps.* The noise moves the bound by a martingale Σ c_k⟨N_k, v_k⟩. All models lie within 2R of each other, so it
is at most 2Rσ√(2xΣc_k²): with a constant step nothing better is known. But for a fixed s it is also at most
(s/2)σ²Σc_k²‖v_k‖² + x/s, and steps that rise from γ/(1+a) to γ make the sum Σ(‖v_{k−1}‖² − ‖v_k‖²)/(2γ_k) leave
−½(1/γ_k − 1/γ_{k+1})‖v_k‖² behind, which pays for it: with 1/γ_k = 1/γ + sσ²Σ_{j>k}c_j² all that is left is
D²/2·(1/γ + sσ²Σc_j²) = D²(1+a)/(2γ), a = γsσ²Σc_j², and x/s = xγσ²Σc_j²/a. So the bound depends on the first distance,
which is R from the centre, and not on the diameter. a is the schedule's ``rise``; 0 is the constant step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from treering.arrays import Floats
from treering.budget.minimising import lattice_size, solver_distance
from treering.domain.problem import Descent, Method, Net, NoisyMoments, Perturbation, Problem, Start
from treering.params import probability

RISES: Final = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The values of ``rise`` that plans choose from."""

_SUMMED: Final = 4096
_NEWTON: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Courses:
    """Courses of descent, numbers of steps K by row and rises by column, with the sums that their bounds need.

    With r_k = γ_k/γ: for the averaged schedule, c_k = 1, ``plain`` is Σr_k and ``plain_root`` √Σr_k²; for the
    accelerated one, c_k = k, ``growing`` is Σk²r_k and ``growing_root`` √Σ(k²r_k)². The largest terms are 1 and K².
    """

    number: Floats
    rise: Floats
    plain: Floats
    plain_root: Floats
    growing: Floats
    growing_root: Floats

    @classmethod
    def of(cls, numbers: Sequence[int], rises: Sequence[float] = RISES) -> Courses:
        """The courses of every number of steps with every rise."""
        return _courses(tuple(numbers), tuple(rises))


@lru_cache(maxsize=256)
def _courses(numbers: tuple[int, ...], rises: tuple[float, ...]) -> Courses:
    sums = np.array([[_sums(number, rise) for rise in rises] for number in numbers])
    number, rise = np.array(numbers, dtype=np.float64)[:, None], np.array(rises)[None, :]
    return Courses(number, rise, *(sums[:, :, place] for place in range(4)))


def _sums(number: int, rise: float) -> tuple[float, float, float, float]:
    """The four sums of `Courses`; for more than `_SUMMED` steps, upper bounds on them.

    r is a rising function h(u) = 1/(1 + a(1−u)) of the share u of Σc² that is done, Σ c_k²r_k is a right Riemann sum
    of h, and exceeds its integral log(1+a)/a by at most the largest c_k² times h(1) − h(0) = a/(1+a).
    """
    if number <= _SUMMED:
        k = np.arange(1.0, number + 1)
        plain = 1 / (1 + rise * (1 - k / number))
        squares = np.cumsum(np.square(k))
        growing = np.square(k) / (1 + rise * (1 - squares / squares[-1]))
        first, second = (float(np.linalg.norm(each)) for each in (plain, growing))
        return float(plain.sum()), first, float(growing.sum()), second
    many = float(number)
    summed = many * (many + 1) * (2 * many + 1) / 6
    share = math.log1p(rise) / rise if rise else 1.0
    excess = rise / (1 + rise)
    fourths = summed * (3 * many * many + 3 * many - 1) / 5
    return many * share + excess, math.sqrt(many), summed * share + many * many * excess, math.sqrt(fourths)


@dataclass(frozen=True, slots=True)
class Steps:
    """Noisy descent on one problem: bounds are arrays over the courses, by number of steps and rise."""

    courses: Courses
    sigma: Floats
    """σ of each course."""
    dimension: int
    radius: float
    """R."""
    first: float
    """D."""
    gradient: float
    """G."""
    smoothness: float
    """M."""
    convexity: float
    """λ."""
    rounding: float
    """b."""
    beta: float

    @classmethod
    def of(
        cls,
        problem: Problem,
        courses: Courses,
        sigma: float | Floats,
        resolution: int,
        start: Start,
        beta: float,
    ) -> Steps:
        """Descent on ``problem``; slopes are rounded by at most 1/resolution, vectors by (√d + 2)/resolution."""
        rounding = gradient_rounding(problem, resolution)
        return cls(
            courses,
            np.asarray(sigma, dtype=np.float64),
            problem.dimension,
            problem.radius,
            problem.radius + (0.0 if start is None else math.hypot(*start)),
            problem.whole_lipschitz + rounding,
            problem.smoothness,
            problem.strong_convexity,
            rounding,
            float(probability(beta, "beta")),
        )

    # -- the schedule "averaged" ---------------------------------------------------------------------------------------

    def averaged(self, step: float | Floats | None = None) -> Floats:
        """The plain average of N = K+1 models, with steps η_k up to η (None: the best one).

        Projection is nonexpansive: ‖v_{k+1}‖² ≤ ‖v_k‖² − 2η_k⟨g̃_k, v_k⟩ + η_k²‖g̃_k‖², g̃_k = g_k + N_k. Divide by 2η_k,
        sum, and use convexity (the last model's step is made up, with its exact gradient and η):

            N·excess ≤ Σ(‖v_k‖² − ‖v_{k+1}‖²)/(2η_k) + Σ η_k/2·(G² + ‖N_k‖²) + Σ⟨N_k, η_k·g_k − v_k⟩ + 2NRb.

        Σ η_k‖N_k‖² ≤ ησ²W, W = d·Σr_k + 2√(dxΣr_k²) + 2x. Constant step: the martingale is at most
        σ(2R + ηG)√(2Kx), and the first sum D²/(2η). Rising: ‖η_k·g_k − v_k‖² ≤ ‖v_k‖² + η²G² + 4ηRb, as
        ⟨g_k, v_k⟩ ≥ −2Rb, so

            N·excess ≤ D²(1+a)/(2η) + η/2·((Σr_k + 1 + a)·G² + σ²W) + ηxσ²K/a + 2(N+a)Rb.
        """
        falling, rising, fixed = self._averaged()
        moved = 2 * np.sqrt(falling * rising) if step is None else falling / step + rising * step
        return np.asarray(moved + fixed)

    def averaged_step(self) -> Floats:
        """The best η."""
        falling, rising, _ = self._averaged()
        return np.asarray(np.sqrt(falling / rising))

    def _averaged(self) -> tuple[Floats, Floats, Floats]:
        """A, B and C of the bound A/η + Bη + C."""
        x, course = math.log(2 / self.beta), self.courses
        models = course.number + 1
        norms = self.sigma**2 * self._norms(course.plain, course.plain_root, 1.0, x)
        falling = self.first**2 * (1 + course.rise) / (2 * models)
        slopes = self.gradient**2 * (course.plain + 1 + course.rise)
        constant = course.rise == 0
        strays = self.sigma * np.sqrt(2 * course.number * x)
        stray = np.where(constant, self.gradient * strays, self.sigma**2 * course.number * x / _not_zero(course.rise))
        rising = ((slopes + norms) / 2 + stray) / models
        fixed = np.where(constant, 2 * self.radius * strays / models, 0.0)
        return falling, rising, fixed + 2 * self.radius * self.rounding * (1 + course.rise / models)

    def _norms(self, summed: Floats, root: Floats, largest: float | Floats, x: float) -> Floats:
        """By (norms), Σ w_k‖N_k‖² is at most this times σ², for weights w with these L1, L2 and maximum norms."""
        return np.asarray(self.dimension * summed + 2 * math.sqrt(self.dimension * x) * root + 2 * x * largest)

    # -- the schedule "accelerated" ------------------------------------------------------------------------------------

    def accelerated(self, step: float | Floats | None = None) -> Floats:
        """Lan's method (2012), steps kγ_k with γ_k up to γ (None: the best one), for an M-smooth F.

        With α_k = 2/(k+1) and Γ_k = 2/(k(k+1)), smoothness and convexity along the step give, for the averages a_k,

            F(a_k) − F* ≤ (1−α_k)(F(a_{k−1}) − F*) + α_k/(2kγ_k)·(‖v_{k−1}‖² − ‖v_k‖²)
                          − α_k⟨N_k, v_{k−1}⟩ + α_k·kγ_k‖N_k‖²/(2(1−2Mγ_k)) + α_k·2Rb

        (Young's inequality on ⟨N_k, θ_k−θ_{k−1}⟩, as Mα_k·kγ_k ≤ 2Mγ_k < 1). Divide by Γ_k and sum. With S = Σk²,
        W = d·Σk²r_k + 2√(dxΣ(k²r_k)²) + 2xK², and a constant step,

            excess ≤ 2/(K(K+1))·(D²/(2γ) + γσ²W/(2(1−2Mγ)) + 2Rσ√(2xS)) + 2Rb;

        with rising ones, c_k = k,

            excess ≤ 2/(K(K+1))·(D²(1+a)/(2γ) + γσ²W/(2(1−2Mγ)) + γxσ²S/a) + 2Rb.
        """
        falling, rising, curved, fixed = self._accelerated()
        best = self.accelerated_step() if step is None else np.asarray(step)
        room = 1 - 2 * self.smoothness * best
        moved = falling / best + rising * best + curved * best / np.where(room > 0, room, np.nan)
        number = self.courses.number
        bound = 2 / (number * (number + 1)) * (moved + fixed) + 2 * self.radius * self.rounding
        return np.where(room > 0, bound, math.inf)

    def accelerated_step(self) -> Floats:
        """The best γ, of A/γ + Bγ + Cγ/(1−2Mγ), up to (1 − 2^-26)/(2M), where 1−2Mγ is still no rounding error.

        γ = 1/(2M(1+w)), where (2M)²A = B/(1+w)² + C/w². The right side falls and is convex, so Newton's method from the
        left, where one of its two parts alone is enough, rises to the solution.
        """
        falling, rising, curved, _ = self._accelerated()
        whole = (2 * self.smoothness) ** 2 * falling
        w = np.maximum(np.sqrt(curved / whole), np.sqrt(rising / whole) - 1)
        for _ in range(_NEWTON):
            left = rising / (1 + w) ** 2 + curved / w**2 - whole
            w = w + np.maximum(left, 0.0) / (2 * rising / (1 + w) ** 3 + 2 * curved / w**3)
        return np.asarray(1 / (2 * self.smoothness * (1 + np.maximum(w, 2.0**-26))))

    def _accelerated(self) -> tuple[Floats, Floats, Floats, Floats]:
        """A, B, C and the constant term of the bound A/γ + Bγ + Cγ/(1−2Mγ) + constant, before the factor 2/(K(K+1))."""
        x, course = math.log(2 / self.beta), self.courses
        k = course.number
        squares = k * (k + 1) * (2 * k + 1) / 6
        constant = course.rise == 0
        curved = self.sigma**2 * self._norms(course.growing, course.growing_root, k * k, x) / 2
        rising = np.where(constant, 0.0, self.sigma**2 * squares * x / _not_zero(course.rise))
        fixed = np.where(constant, 2 * self.radius * self.sigma * np.sqrt(2 * x * squares), 0.0)
        return self.first**2 * (1 + course.rise) / 2, rising, curved, fixed

    # -- the schedule "strong" -----------------------------------------------------------------------------------------

    def strong(self) -> Floats:
        """Steps 2/(λ(k+1)), models 1..N averaged with weights k, N = K+1, for a λ-strongly convex F.

        k times [excess_k ≤ ⟨g_k, v_k⟩ − λ/2·‖v_k‖²] and the step's inequality telescope to 0:

            Σ k·excess_k ≤ Σ ‖g̃_k‖²/λ − Σ k⟨N_k, v_k⟩ + N(N+1)Rb.

        The martingale is at most (s/2)σ²Σk²‖v_k‖² + x/s; with s = λ/(2Kσ²) half of the left side pays for the first
        part, as excess_k ≥ λ/2·‖v_k‖². And Σ‖g̃_k‖² ≤ N·G² + 2Gσ√(2Kx) + σ²(Kd + 2√(Kdx) + 2x). So

            excess ≤ 4/(λN(N+1))·(N·G² + 2Gσ√(2Kx) + σ²(Kd + 2√(Kdx) + 2x) + 2Kσ²x) + 4Rb,    x = log(3/β).
        """
        k = self.courses.number
        if not self.convexity:
            return np.full(np.broadcast_shapes(k.shape, self.courses.rise.shape), math.inf)
        x, models = math.log(3 / self.beta), k + 1
        norms = k * self.dimension + 2 * np.sqrt(k * self.dimension * x) + 2 * x + 2 * k * x
        cross = 2 * self.gradient * self.sigma * np.sqrt(2 * k * x)
        total = models * self.gradient**2 + cross + self.sigma**2 * norms
        bound = 4 / (self.convexity * models * (models + 1)) * total + 4 * self.radius * self.rounding
        return np.asarray(bound + 0 * self.courses.rise)


def gradient_rounding(problem: Problem, resolution: int) -> float:
    """b: the most that rounding to multiples of 1/``resolution`` moves a mean gradient."""
    return (1.01 if problem.loss.linear else math.sqrt(problem.dimension) + 2) / resolution


def _not_zero(rise: Floats) -> Floats:
    """The rise as a divisor: 1 where the rise is 0, and the quotient is not used."""
    return np.where(rise > 0, rise, 1.0)


# -- output perturbation -----------------------------------------------------------------------------------------------


def perturbation_bound(problem: Problem, method: Perturbation, beta: float) -> float:
    """The excess risk of output perturbation; `treering.budget.minimising` has its cost.

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
    """`perturbation_bound` for a given E = ``displaced``."""
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


# -- noisy moments -----------------------------------------------------------------------------------------------------


def moments_bound(problem: Problem, method: NoisyMoments, size: int, beta: float) -> float:
    """The excess risk of the model that fits noisy moments, on ``size`` entries.

    Let E = Â − A and e = b̂ − b be the errors of the moments that are fitted, and θ* a minimiser of F. The released θ
    minimises F plus ½θᵀEθ − ⟨e, θ⟩ + ridge/2·‖θ − start‖² over the ball, so

        excess ≤ ½⟨E, θ*θ*ᵀ − θθᵀ⟩ + ⟨e, θ − θ*⟩ + ridge/2·‖θ* − start‖².

    By Cauchy and Schwarz the first two are at most ‖(E, e)‖·√(¼‖θ*θ*ᵀ − θθᵀ‖² + ‖θ − θ*‖²), Frobenius norms, and with
    u = ⟨θ, θ*⟩ the root is at most √(½(R⁴ − u²) + 2R² − 2u) ≤ (R² + 2)/√2. A is positive semidefinite, and setting
    negative eigenvalues to 0 is the projection onto such matrices: it moves the noisy A no further from A. So
    ‖(E, e)‖² is at most a sum of m = d(d+1)/2 + d squares of independent noise, those off the diagonal counted twice at
    about half the variance: by (norms) at most 1.004·σ²(m + 2√(mx) + 2x), x = log(1/β), σ = scale/n.

        excess ≤ (R² + 2)/√2·σ·√(1.004(m + 2√(mx) + 2x)) + ridge/2·D².

    A refined model θ′ is as good up to `Refinement.allowed` a: let G be the objective of the noisy moments, which θ
    minimises. G(θ′) ≤ G(θ) + a ≤ G(θ*) + a, and the rest of the proof is the same.
    """
    x, d = math.log(1 / float(probability(beta, "beta"))), problem.dimension
    number = d * (d + 1) / 2 + d
    noise = method.scale / size * math.sqrt(1.004 * (number + 2 * math.sqrt(number * x) + 2 * x))
    far = problem.radius + (0.0 if method.start is None else math.hypot(*method.start))
    # The solver adds a ridge of at least 2^-40, and rounds floats: far less than the room that is left here.
    pulled = (method.ridge + 2.0**-30) / 2 * far**2
    refined = 0.0 if method.refinement is None else method.refinement.allowed
    return ((problem.radius**2 + 2) / math.sqrt(2) * noise + pulled + refined) * (1 + 2.0**-30)


# -- noisy descent -----------------------------------------------------------------------------------------------------


def descent_bound(problem: Problem, method: Descent, size: int, beta: float) -> float:
    """The excess risk of noisy projected gradient descent on ``size`` entries: `Steps` has the proofs."""
    courses = Courses.of([method.steps], [method.rise])
    steps = Steps.of(problem, courses, method.scale / size, method.resolution, method.start, beta)
    if method.schedule == "averaged":
        return float(steps.averaged(method.step_size)[0, 0])
    if method.schedule == "accelerated":
        return float(steps.accelerated(method.step_size)[0, 0])
    return float(steps.strong()[0, 0])


# -- the exponential mechanism over a net ------------------------------------------------------------------------------


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
    """An upper bound on the number of candidates: the smaller of two.

    One is the number of lattice points in the cube around the ball; the other the volume, in lattice cells, of a larger
    ball that holds the cells of all candidates.
    """
    d = problem.dimension
    unit_ball = math.pi ** (d / 2) / math.gamma(d / 2 + 1)
    filled = unit_ball * (problem.radius / method.pitch + math.sqrt(d)) ** d
    return float(min(lattice_size(problem, method), filled))


def bound(problem: Problem, method: Method, size: int, beta: float) -> float:
    """The excess risk of any method on ``size`` entries, which fails with probability at most ``beta``."""
    match method:
        case Perturbation():
            return perturbation_bound(problem, method, beta)
        case Descent():
            return descent_bound(problem, method, size, beta)
        case Net():
            return net_bound(problem, method, size, beta)
        case NoisyMoments():
            return moments_bound(problem, method, size, beta)
