"""The paper's bounds for empirical risk minimisation: its theorem for ERMG, its table, and its black-box rates.

Setting: the loss is 1-Lipschitz over a set of diameter 1 in R^d, and perhaps Δ-strongly convex. The static bounds are
those of Bassily, Smith and Thakurta (2014), whose leading constant is not stated: ``constant`` stands for it, and is 1
unless given, so these bounds show rates to compare, and are no guarantees. As in the table, factors log log(1/β) are
left out. Erratum E15: the strongly convex growing bound has c where the paper prints √c (p = 2 squares it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from treering.errors import GuaranteeError, ParameterError
from treering.params import exact, probability, whole


class ErmRate(NamedTuple):
    """(p, p′, p″, g): the accuracy α = g·(1/(εn))^p·log(n)^p2·log(1/β)^p1 of a pure black box."""

    p: float
    p1: float
    p2: float
    g: float


def rate(dimension: int, strong_convexity: float | None = None, constant: float = 1.0) -> ErmRate:
    """The paper's black boxes: (1, 1, 0, C·d) for Lipschitz losses, (2, 2, 1, C·d²/Δ) for strongly convex ones."""
    d, factor = whole(dimension, "dimension"), float(exact(constant, "constant"))
    if strong_convexity is None:
        return ErmRate(1.0, 1.0, 0.0, factor * d)
    return ErmRate(2.0, 2.0, 1.0, factor * d**2 / _convexity(strong_convexity))


def paper_static_bound(
    dimension: int,
    size: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    *,
    strong_convexity: float | None = None,
    constant: float = 1.0,
) -> float:
    """The table's static columns: the excess risk at t = ``size`` entries.

    δ = 0: d·log(1/β)/(εt), or d²·log t·log²(1/β)/(Δε²t²).
    δ > 0 (the table assumes δ < 1/t): √d·log²(t/δ)·log(1/β)/(εt), or d·log³(t/δ)·log²(1/β)/(Δε²t²).
    """
    d, t, privacy = whole(dimension, "dimension"), whole(size, "size"), float(exact(epsilon, "epsilon"))
    sure = math.log(1 / float(probability(beta, "beta")))
    factor = float(exact(constant, "constant"))
    if delta == 0:
        if strong_convexity is None:
            return factor * d * sure / (privacy * t)
        return factor * d**2 * math.log(t) * sure**2 / (_convexity(strong_convexity) * (privacy * t) ** 2)
    if probability(delta, "delta") >= 1 / t:
        raise GuaranteeError(f"the table's (epsilon, delta) column assumes delta < 1/size: below {1 / t:.3g} here")
    tail = math.log(t / delta)
    if strong_convexity is None:
        return factor * math.sqrt(d) * tail**2 * sure / (privacy * t)
    return factor * d * tail**3 * sure**2 / (_convexity(strong_convexity) * (privacy * t) ** 2)


def paper_growing_bound(
    dimension: int,
    size: int,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    *,
    c: float = 0.1,
    strong_convexity: float | None = None,
    constant: float = 1.0,
) -> float:
    """Theorem "ERMG": d·log(1/β)√log(1/δ)/(√c·ε·t^{½−c}), or d²·log²(1/β)·log(1/δ)/(c·Δ·ε²·t^{1−c}) (E15)."""
    d, t, privacy = whole(dimension, "dimension"), whole(size, "size"), float(exact(epsilon, "epsilon"))
    slack = float(exact(c, "c"))
    sure = math.log(1 / float(probability(beta, "beta")))
    tail = math.log(1 / float(probability(delta, "delta")))
    factor = float(exact(constant, "constant"))
    if strong_convexity is None:
        return factor * d * sure * math.sqrt(tail) / (math.sqrt(slack) * privacy * math.pow(t, 0.5 - slack))
    convexity = _convexity(strong_convexity)
    return factor * d**2 * sure**2 * tail / (slack * convexity * privacy**2 * math.pow(t, 1 - slack))


def paper_alpha_at(
    size: int, epsilon: float, delta: float, beta: float, c: float, black_box: ErmRate, start: int
) -> float:
    """The α_t in the proof of the improving theorem, before constants are absorbed into C (erratum E6).

    ε_t = √c·ε/(3√log(1/δ)·t^{½+c}), β_t = β/(2t²): α_t = g·(1/(ε_t·t))^p·log(t)^p2·log(1/β_t)^p1. It needs ε ≤ 1 and
    0 < c ≤ n/2.
    """
    slack, privacy = float(exact(c, "c")), float(exact(epsilon, "epsilon"))
    if slack > whole(start, "start") / 2:
        raise ParameterError("c", f"must be at most half the starting size, {start / 2:g}, not {c}")
    if privacy > 1:
        raise GuaranteeError("the improving theorem needs epsilon <= 1")
    tail = math.sqrt(math.log(1 / float(probability(delta, "delta"))))
    each = math.sqrt(slack) * privacy / (3 * tail * size ** (0.5 + slack))
    sure = math.log(2 * size**2 / float(probability(beta, "beta")))
    p, p1, p2, g = black_box
    return float(g * (1 / (each * size)) ** p * math.log(size) ** p2 * sure**p1)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what is assumed of the loss, and the bounds."""

    assumptions: str
    static_pure: float
    static: float
    growing: float


def table(
    dimension: int,
    size: int,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    c: float = 0.1,
    strong_convexity: float = 1.0,
    constant: float = 1.0,
) -> tuple[Row, Row]:
    """The paper's table of static and growing bounds, evaluated at given parameters."""
    rows = []
    for words, convexity in (("1-Lipschitz", None), (f"{strong_convexity:g}-strongly convex", strong_convexity)):
        rows.append(
            Row(
                words,
                paper_static_bound(dimension, size, epsilon, 0.0, beta, strong_convexity=convexity, constant=constant),
                paper_static_bound(
                    dimension, size, epsilon, delta, beta, strong_convexity=convexity, constant=constant
                ),
                paper_growing_bound(
                    dimension, size, epsilon, delta, beta, c=c, strong_convexity=convexity, constant=constant
                ),
            )
        )
    return rows[0], rows[1]


def format_table(rows: tuple[Row, ...]) -> str:
    """The table as text.

    >>> print(format_table(table(10, 10**6, 1.0, 1e-9)))
    assumptions            static (ε, 0)  static (ε, δ)  growing (ε, δ)
    1-Lipschitz                    3e-05         0.0113            1.72
    1-strongly convex           1.24e-08        3.7e-06            0.74
    """
    lines = [f"{'assumptions':<22} {'static (ε, 0)':>13}  {'static (ε, δ)':>13}  {'growing (ε, δ)':>14}"]
    lines += [
        f"{row.assumptions:<22} {row.static_pure:>13.3g}  {row.static:>13.3g}  {row.growing:>14.3g}" for row in rows
    ]
    return "\n".join(lines)


def _convexity(value: float) -> float:
    """Δ, checked: that of a 1-Lipschitz loss over a set of diameter 1 is at most 2."""
    if exact(value, "strong_convexity") > 2:
        raise ParameterError("strong_convexity", f"of a 1-Lipschitz loss on diameter 1 is at most 2, not {value}")
    return float(value)
