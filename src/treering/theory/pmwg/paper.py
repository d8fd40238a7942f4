"""The paper's theorems on PMWG, "Private Multiplicative Weights for Growing Databases", with their constants.

PMWG starts at n rows over N cells. At t rows its sparse vector has noise ξ_t = c·t^p, the paper's c depending on α, ε,
δ, N and n; linear queries have sensitivity Δ_t = 1/t, so a run begun at t loses ξ_t/t = c·t^{p−1}. A query is hard
when the public histogram is off by more than about 2α/3, and new rows can make at most 36/α²·Σ b_t queries hard,

    b_t = log N/t + log(t−1)/t + log(t/(t−1)).

Parameters: ``start`` is n and ``size`` is t, in rows; ``cells`` is N; ``alpha`` is α, a share of the rows; ``kappa`` is
κ ≥ 1, the factor of the number of queries allowed; ``p`` the noise's exponent.

Three theorems: δ = 0 with p = ½ ("SPMW-final", a case of its own: erratum E13), δ = 0 with any p ("Generalized-Noise"),
and δ > 0 with any p. Errata E11 to E14 are applied. `noise`, `alpha` and the rest are formulas; they are theorems where
`check_paper` passes. Neighbours replace one row; logarithms are natural.
"""

from __future__ import annotations

import math
import sys
from typing import Final

from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, chance, positive, whole
from treering.theory.conversion import paper_epsilon_of
from treering.theory.search import first_whole, least_positive
from treering.words import counted

LARGEST_BETA: Final = 2.0**-7.5
"""β must be below this wherever the proof goes through the incomplete gamma function: all but δ = 0, p = ½."""

_MARGIN: Final = 2.0**-40
_SUMMED: Final = 1024
_CHORD: Final = 0.01


# -- parameters --------------------------------------------------------------------------------------------------------


def check_paper(start: int, cells: int, epsilon: Number, delta: Number, beta: Number, p: float = 0.5) -> None:
    """Refuse parameters outside the paper's theorems (erratum E14); the `GuaranteeError` names the values allowed.

    δ = 0, p = ½: N ≥ 3, n ≥ 21. Otherwise N ≥ 3, n ≥ 17, ¼ ≤ p < 1, β < 2^{−15/2}, and for δ > 0 also ε ≤ 1 and δ <
    1/e. Privacy does not depend on β; accuracy does.
    """
    exponent, own_case = chance(p, "p"), _is_zero(delta) and p == 0.5
    fewest = 21 if own_case else 17
    problems = []
    if whole(cells, "cells") < 3:
        problems.append(f"cells must be at least 3, not {cells}")
    if whole(start, "start") < fewest:
        problems.append(f"the database must start with at least {counted(fewest, 'row')}, not {start}")
    if exponent < 0.25:
        problems.append(f"p must lie in [1/4, 1), not {p}")
    if chance(beta, "beta") >= LARGEST_BETA and not own_case:
        problems.append(f"beta must be below 2^(-15/2), about 0.0055, not {float(beta):g}")
    if positive(epsilon, "epsilon") > 1 and not _is_zero(delta):
        problems.append(f"epsilon must be at most 1 when delta is positive, not {float(epsilon):g}")
    if _delta(delta) >= math.exp(-1):
        problems.append(f"delta must be below 1/e, about 0.3679, not {float(delta):g}")
    if problems:
        raise GuaranteeError("the paper's PMWG theorems do not cover this: " + "; ".join(problems))


def _is_zero(delta: Number) -> bool:
    return not isinstance(delta, bool) and delta == 0


def _delta(delta: Number) -> float:
    return 0.0 if _is_zero(delta) else chance(delta, "delta")


# -- noise and accuracy ------------------------------------------------------------------------------------------------


def noise(size: int, start: int, cells: int, epsilon: Number, delta: Number, alpha: Number, p: float = 0.5) -> float:
    """ξ_t at t = size rows.

    δ = 0, p = ½: α²√n·ε√t/(162·log(Nn)). δ = 0: α²(1−p)²n^{1−p}·ε·t^p/(126·log(Nn)). δ > 0:
    α(1−p)n^{1−p}·ε·t^p/(24·√(log(Nn)·log(1/δ))).

    >>> round(noise(5000, 1000, 64, 1.0, 0.0, 0.1), 6)
    0.012473
    """
    if whole(size, "size") < start:
        raise ParameterError("size", f"must be at least start, {start}, not {size}")
    return _coefficient(start, cells, epsilon, delta, alpha, p) * math.pow(size, p)


def _coefficient(start: int, cells: int, epsilon: Number, delta: Number, alpha: Number, p: float) -> float:
    """c of ξ_t = c·t^p."""
    error, loss = positive(alpha, "alpha"), positive(epsilon, "epsilon")
    spread, left = _log_spread(start, cells), 1 - chance(p, "p")
    if not _is_zero(delta):
        return error * left * math.pow(start, left) * loss / (24 * math.sqrt(spread * math.log(1 / _delta(delta))))
    if p == 0.5:
        return error**2 * math.sqrt(start) * loss / (162 * spread)
    return error**2 * left**2 * math.pow(start, left) * loss / (126 * spread)


def _log_spread(start: int, cells: int) -> float:
    """log(Nn)."""
    return math.log(whole(cells, "cells", 2)) + math.log(whole(start, "start"))


def alpha(start: int, cells: int, epsilon: Number, delta: Number, beta: Number, kappa: Number, p: float = 0.5) -> float:
    """The least α for which PMWG is proven (α, β)-accurate on streams within `query_budget`.

    δ = 0, p = ½: (8262·log(Nn)·log(192κn/β)/(nε))^{1/3}. δ = 0: (6426·log(Nn)·log(144κn/β)/((1−p)²nε))^{1/3}. δ > 0:
    (1224·√(log(Nn)·log(1/δ))·log(144κn/β)/((1−p)nε))^{1/2}. Above 1 it promises nothing.

    The theorem counts ℓ_t queries where its subroutine receives 2ℓ_t (erratum E11): of the two questions about a query
    only one tail of one noise can fail, and with that it holds.

    >>> round(alpha(10**8, 1000, 1.0, 0.0, 0.05, 1), 4), round(alpha(10**8, 1000, 1.0, 1e-9, 0.005, 1), 4)
    (0.3822, 0.1268)
    """
    spread, left = _log_spread(start, cells), 1 - chance(p, "p")
    rows = start * positive(epsilon, "epsilon")
    odds = math.log(check_kappa(kappa)) + math.log(start) - math.log(chance(beta, "beta"))
    if not _is_zero(delta):
        spread = math.sqrt(spread * math.log(1 / _delta(delta)))
        return math.sqrt(1224 * spread * (math.log(144) + odds) / (left * rows))
    if p == 0.5:
        return math.cbrt(8262 * spread * (math.log(192) + odds) / rows)
    return math.cbrt(6426 * spread * (math.log(144) + odds) / (left**2 * rows))


def check_kappa(kappa: Number) -> float:
    """κ as a float; refuses one below 1."""
    factor = positive(kappa, "kappa")
    if factor < 1:
        raise ParameterError("kappa", f"must be at least 1, not {kappa}")
    return factor


def alpha_start(
    wanted: Number, cells: int, epsilon: Number, delta: Number, beta: Number, kappa: Number, p: float = 0.5
) -> int:
    """The fewest starting rows for which the accuracy theorem covers α = ``wanted``.

    The bound falls in n from n = 17 on: with A = log(Nn) ≥ 3.9 and B = log(144κn/β) ≥ 7.8, A·B/n falls where 1/A +
    1/B < 1, and √A·B/n where 1/(2A) + 1/B < 1.
    """
    goal = positive(wanted, "wanted")
    low = 20 if _is_zero(delta) and p == 0.5 else 16
    check_paper(low + 1, cells, epsilon, delta, beta, p)
    return first_whole(lambda start: alpha(start, cells, epsilon, delta, beta, kappa, p) <= goal, low, low + 1)


# -- queries -----------------------------------------------------------------------------------------------------------


def query_rate(start: int, cells: int, epsilon: Number, delta: Number, alpha: Number, p: float = 0.5) -> float:
    """αc/48: the accuracy theorems allow κ·e^{rate·τ^p} queries for size τ.

    That is what the proofs use: 162·48 = 7776 under α³ at p = ½ (where the text says 8262; erratum E12), 126·48 =
    6048 and 24·48 = 1152. At the α of the theorem it is (17/16)·log(192κn/β)/n^p, and 144 for 192 but in the first.
    """
    return positive(alpha, "alpha") * _coefficient(start, cells, epsilon, delta, alpha, p) / 48


def query_budget(
    start: int, size: int, cells: int, epsilon: Number, delta: Number, alpha: Number, kappa: Number, p: float = 0.5
) -> float:
    """How many queries the accuracy theorem allows by the time there are ``size`` rows, rounded down.

    The sum is that of `log_query_budget`. A number too large for a float is returned as the largest float.
    """
    log_total = log_query_budget(start, size, cells, epsilon, delta, alpha, kappa, p)
    return math.exp(log_total) if log_total < math.log(sys.float_info.max) else sys.float_info.max


def log_query_budget(
    start: int, size: int, cells: int, epsilon: Number, delta: Number, alpha: Number, kappa: Number, p: float = 0.5
) -> float:
    """log(κ·Σ_{τ=n}^{t} e^{g(τ)}), g(τ) = `query_rate`·τ^p: a lower bound, within about 3e-6.

    g is concave. Over a block of sizes a..b it is at least its chord, so Σ_{a ≤ τ < b} e^{g(τ)} is at least a geometric
    series; with blocks of width 0.01·τ/√max(1, g) the chord is within (width²/8)·|g''| ≤ 0.01²/8·p(1−p) of g, and
    blocks of one row are exact. Blocks are taken from the largest size down; the sum of positive terms may be cut
    anywhere.
    """
    rate = query_rate(start, cells, epsilon, delta, alpha, p)
    if whole(size, "size") < start:
        raise ParameterError("size", f"must be at least start, {start}, not {size}")
    top = upper = rate * math.pow(size, p)
    total, end = 1.0, size
    while end > start and math.exp(upper - top) * (end - start) > 1e-9 * total:
        width = min(end - start, max(1, int(_CHORD * end / math.sqrt(max(1.0, upper)))))
        lower = rate * math.pow(end - width, p)
        total += math.exp(upper - top) * _chord_sum(upper - lower, width)
        end, upper = end - width, lower
    log_total = math.log(check_kappa(kappa)) + top + math.log(total)
    return log_total - _MARGIN * (1 + abs(log_total))


def _chord_sum(rise: float, terms: int) -> float:
    """Σ e^{−rise·i/terms} over 1 ≤ i ≤ terms."""
    step = rise / terms
    return math.exp(-step) * math.expm1(-rise) / math.expm1(-step) if step > 0 else float(terms)


def hard_bound(start: int, size: int, cells: int, alpha: Number) -> float:
    """36/α²·(log N + Σ_{τ=n+1}^{t} b_τ): at most this many queries are hard by the time there are ``size`` rows.

    Right to about 1e-12. The last term of b telescopes to log(t/n). The rest, h(x) = (log N + log(x−1))/x, is summed up
    to 1024 and by Euler and Maclaurin beyond: ∫h + ½h + h'/12 between the ends, with a remainder of at most
    |h'''|/720 ≤ 1e-13·log N at 1024, as h'''' > 0. ∫h = log N·log x + ½log²x + Li₂(1/x).
    """
    last, first = whole(size, "size"), whole(start, "start")
    if last < first:
        raise ParameterError("size", f"must be at least start, {start}, not {size}")
    log_cells = math.log(whole(cells, "cells", 2))
    middle = min(last, max(first, _SUMMED))
    terms = [(log_cells + math.log(t - 1)) / t for t in range(first + 1, middle + 1)]
    if last > middle:
        terms += [_euler_maclaurin(last, log_cells), -_euler_maclaurin(middle, log_cells)]
    injected = math.fsum([log_cells, math.log(last / first), *terms])
    return 36 / positive(alpha, "alpha") ** 2 * injected


def _euler_maclaurin(x: int, log_cells: float) -> float:
    """∫h + h/2 + h'/12 at x, for h(x) = (log N + log(x−1))/x; the series of Li₂ at 1/x ≤ 1/1024."""
    log_x, height = math.log(x), log_cells + math.log(x - 1)
    integral = log_cells * log_x + log_x**2 / 2 + math.fsum(x**-k / k**2 for k in range(1, 7))
    return integral + height / x / 2 + (1 / (x * (x - 1)) - height / x**2) / 12


# -- privacy -----------------------------------------------------------------------------------------------------------


def privacy_loss(
    start: int,
    cells: int,
    epsilon: Number,
    delta: Number,
    alpha: Number,
    p: float = 0.5,
    *,
    reserved: bool = False,
) -> float:
    """An upper bound on the ε' of PMWG with noise ξ over its infinite life: at most ε for α ≤ 1 and `check_paper`.

    Theorem "PMWG Privacy" (δ = 0): ε' = (1 + (81/2α²)·log N)·ξ_n/n + (81/2α²)·Σ_{t>n} b_t·ξ_t/t, a run's start
    costing ξ_t/t and its answer an eighth of that. δ > 0: the same with squares, (65/64)·36 = 585/16 in place of
    81/2, is a sum S of squared losses, and ε' = ½S + √(2S·log(1/δ)) (theorem "CDP composition"). ``reserved``: the
    first run's answer is charged too, as in the mechanism, which at a run's start reserves the cost of its answer, and
    fixes the answer's noise.

    The tail. For x ≥ 2, b_x ≤ (1 + log N + log x)/x =: B(x), as log(x−1) ≤ log x − 1/x and log(x/(x−1)) ≤ 1/x +
    1/(2x(x−1)). B(x)·x^{−r} is convex and falls, so its sum over t > m is at most its integral from m + ½, which is
    M^{−r}·((1 + log N + log M)/r + 1/r²) with M = m + ½.
    """
    whole(cells, "cells", 3)
    whole(start, "start")
    decay = 1 - chance(p, "p")
    coefficient = _coefficient(start, cells, epsilon, delta, alpha, p)
    error = positive(alpha, "alpha")
    if _is_zero(delta):
        return coefficient * _lifetime(start, cells, decay, 81 / 2 / error**2, 9 / 8 if reserved else 1.0)
    squares = _lifetime(start, cells, 2 * decay, 585 / 16 / error**2, 65 / 64 if reserved else 1.0)
    return paper_epsilon_of(coefficient**2 * squares / 2, delta)


def _lifetime(start: int, cells: int, decay: float, per_potential: float, first: float) -> float:
    """An upper bound on (first + per_potential·log N)·n^{−r} + per_potential·Σ_{t>n} b_t·t^{−r}, r = decay."""
    log_cells = math.log(cells)
    last = start + _SUMMED
    terms = [_injected(t, log_cells) * math.pow(t, -decay) for t in range(start + 1, last + 1)]
    middle = last + 0.5
    tail = math.pow(middle, -decay) * ((1 + log_cells + math.log(middle)) / decay + 1 / decay**2)
    beginning = (first + per_potential * log_cells) * math.pow(start, -decay)
    return (beginning + per_potential * math.fsum([*terms, tail])) * (1 + _MARGIN)


def _injected(size: int, log_cells: float) -> float:
    """b_t: the most that one more row can add to the potential, by the paper's lemma."""
    return (log_cells + math.log(size - 1)) / size - math.log1p(-1 / size)


# -- a database that does not grow -------------------------------------------------------------------------------------


def static_noise(size: int, cells: int, epsilon: Number, delta: Number, alpha: Number) -> float:
    """ξ of PMW on ``size`` rows that stay as they are, by the paper's proofs without their sums over growth.

    At most h = ⌊36·log N/α²⌋ queries are hard, so at most h + 1 runs begin, each with its answer: theorem "Privacy of
    NATG" at one size. δ = 0: (h+1)·(9/8)·ξ/n = ε. δ > 0: (h+1)·(65/64)·(ξ/n)² = 2ρ with ρ + 2√(ρ·log(1/δ)) = ε
    (theorem "CDP composition").

    >>> round(static_noise(10**6, 1000, 1.0, 0.0, 0.5), 1)
    893.4
    """
    runs = math.floor(static_hard(cells, alpha)) + 1
    loss = positive(epsilon, "epsilon")
    if _is_zero(delta):
        each = loss / (9 / 8 * runs)
    else:
        spread = -math.log(_delta(delta))
        each = (math.sqrt(spread + loss) - math.sqrt(spread)) * math.sqrt(2 * 64 / 65 / runs)
    return whole(size, "size") * each * (1 - _MARGIN)


def static_hard(cells: int, alpha: Number) -> float:
    """36·log N/α²: at most this many queries are hard while nothing grows."""
    return 36 / positive(alpha, "alpha") ** 2 * math.log(whole(cells, "cells", 2))


def static_alpha(size: int, cells: int, epsilon: Number, delta: Number, beta: Number, queries: int) -> float:
    """The least α for which PMW with `static_noise` is proven (α, β)-accurate for ``queries`` queries; 1 if none is.

    Theorem "PMWG accuracy" for k queries at one size: β = (3k + 1)·e^{−αξ/24}; ξ grows with α. For δ = 0 that is about
    (972·log N·log((3k+1)/β)/(εn))^{1/3}: the theorem on static PMW, with its constant.

    >>> round(static_alpha(10**8, 1000, 1.0, 0.0, 0.05, 1000), 3)
    0.09
    """
    rows = whole(size, "size")

    def covered(error: float) -> bool:
        return static_start(error, cells, epsilon, delta, beta, queries) <= rows

    return least_positive(covered, 0.5, 1.0, 1e-9) if covered(1.0) else 1.0


def static_start(wanted: Number, cells: int, epsilon: Number, delta: Number, beta: Number, queries: int) -> int:
    """The fewest rows for which `static_alpha` is at most ``wanted``: ξ is proportional to the size."""
    needed = 24 * (math.log(3 * whole(queries, "queries") + 1) - math.log(chance(beta, "beta")))
    unit = static_noise(1, cells, epsilon, delta, wanted) * positive(wanted, "wanted")
    return math.ceil(needed / unit)
