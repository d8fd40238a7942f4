"""From empirical to true risk: what a model's excess risk on the data says about its excess risk on the population.

The entries are n independent draws from a distribution P. F̂ is the mean loss over them plus λ/2·‖θ‖², F its expectation
(the *true risk*), both over the ball of radius R; every entry's loss is L-Lipschitz there, so both are G-Lipschitz, G =
L + λR (erratum E16). R̂(θ) = F̂(θ) − min F̂ is what `treering.theory.erm` bounds.

**Theorem** (Shalev-Shwartz, Shamir, Srebro and Sridharan 2009). With probability at least 1 − γ over the draw of the
entries, for every θ of the ball at once, one that was chosen by looking at them included,

    F(θ) − min F ≤ √(2G²·R̂(θ)/λ) + 4G²/(γλn).

Proof, with 2L² for 4G² (``tight``). Let θ̂ be the minimiser of F̂. *(i)* F̂ is λ-strongly convex, so ‖θ − θ̂‖² ≤ 2R̂(θ)/λ,
and F(θ) − F(θ̂) ≤ G·‖θ − θ̂‖. *(ii)* Replacing an entry moves θ̂ by at most 2L/(λn) (theorem 1 of docs/theory/erm.md), so
the loss of any entry at θ̂ by at most 2L²/(λn). An entry and its replacement are exchangeable: E F(θ̂) − E F̂(θ̂) ≤
2L²/(λn), while E F̂(θ̂) ≤ E F̂(θ*) = F(θ*) for the minimiser θ* of F. F(θ̂) − F(θ*) is not negative: by Markov it
exceeds 2L²/(γλn) with probability at most γ. ∎

*Without the regulariser.* For the loss alone, added λ/2·‖θ‖² costs at most λ/2·max‖θ‖² = λR²/2. The paper has the
square of the set's diameter there, which is less than max‖θ‖² for a small set far from the origin (erratum E16).
"""

from __future__ import annotations

import math

from treering.domain.problem import Problem
from treering.errors import GuaranteeError, ParameterError
from treering.params import Profile, chance, check_profile, positive, whole


def excess_risk(empirical: float, lipschitz: float, strong_convexity: float, size: int, gamma: float) -> float:
    """The paper's formula, √(2G²/Δ·R̂) + 4G²/(γΔn), for losses that are G-Lipschitz and Δ-strongly convex.

    >>> round(excess_risk(1e-4, 1.0, 1.0, 10**6, 0.05), 6)
    0.014222
    """
    if not (isinstance(empirical, int | float) and 0 <= empirical < math.inf):
        raise ParameterError("empirical", f"must be a finite number of at least 0, not {empirical}")
    square = positive(lipschitz, "lipschitz") ** 2 / positive(strong_convexity, "strong_convexity")
    return math.sqrt(2 * square * empirical) + 4 * square / (chance(gamma, "gamma") * whole(size, "size"))


def population_bound(
    problem: Problem,
    empirical: float,
    size: int,
    gamma: float,
    *,
    regularised: bool = True,
    profile: Profile = "tight",
) -> float:
    """The excess true risk of a model whose excess empirical risk on ``size`` entries is at most ``empirical``.

    It holds but with probability ``gamma`` over the draw of the entries, besides the beta of ``empirical``, and for one
    size; models of several sizes hold together with shares of ``gamma``. ``regularised``: the risk is the objective's,
    λ/2·‖θ‖² included; otherwise that of the loss alone. ``paper``: the theorem's constant; ``tight``: the one proven
    above. The problem must have a ``regularisation``: without strong convexity there is no such bound.

    >>> from treering.domain.loss import Logistic
    >>> problem = Problem(Logistic(), dimension=5, radius=2.0, regularisation=0.1)
    >>> round(population_bound(problem, 1e-4, 10**6, 0.05), 4)
    0.0486
    """
    check_profile(profile)
    added = problem.regularisation
    if not added > 0:
        raise GuaranteeError("a bound on the true risk needs a strongly convex objective: regularisation above 0")
    bound = excess_risk(empirical, problem.whole_lipschitz, added, size, gamma)
    if profile == "tight":
        bound = math.sqrt(2 * empirical / added) * problem.whole_lipschitz
        bound += 2 * problem.lipschitz**2 / (chance(gamma, "gamma") * added * size)
    return bound + (0.0 if regularised else added * problem.radius**2 / 2)
