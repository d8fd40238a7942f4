"""Where BBImprover overtakes BBScheduler: the size from which on improving errors are below the fixed one.

The paper: "For any p > 0, the guarantees of BBImprover are stronger when t ≫ n²", t the present size, n the first. By
its exponents, n^{−p/(1.5p+1)} for ever against t^{−p(½−c)} up to logarithms, that is where t exceeds about n^e,

    e = 1/((1.5p + 1)·(½ − c)),

which is below 2 for small c, and nears it as p nears 0; its own constants decide how far above.
"""

from __future__ import annotations

import math

from treering.errors import GuaranteeError
from treering.params import Number, chance, positive, whole
from treering.theory.schedule.paper import PaperFixed, PaperImproving, rate_of
from treering.theory.search import first_whole


def overtaking_exponent(p: Number, c: Number) -> float:
    """e: BBImprover overtakes at about n^e rows, by the paper's exponents for δ > 0; infinite for c ≥ ½.

    >>> overtaking_exponent(1, 0.1), overtaking_exponent(1 / 3, 0.01) < 2
    (1.0, True)
    """
    left = 0.5 - positive(c, "c")
    return 1 / ((1.5 * positive(p, "p") + 1) * left) if left > 0 else math.inf


def overtaking(start: int, epsilon: Number, delta: Number, beta: Number, p: Number, g: Number, c: Number) -> int:
    """The size from which on the paper's BBImprover guarantees less error than its BBScheduler, for a (p, g)-black box.

    Both start at ``start`` rows with the same promise; such a box is a (p, p, 0, g)-black box. The error of BBImprover
    is t^{−p(½−c)}·log^p(2t²/β) up to a factor. Its logarithm grows, in log t, by −p(½−c) + 2p/log(2t²/β), which falls:
    so it rises, if at all, only at first. The size returned is the first at which it falls and is below the fixed one.

    >>> size = overtaking(10**6, 1.0, 1e-9, 0.05, 1.0, 1.0, 0.05)
    >>> 10**6 < size < 10**12
    True
    """
    free = positive(c, "c")
    if free >= 0.5:
        raise GuaranteeError(f"with c={free:g} BBImprover's error does not fall: c must be below 1/2")
    fixed = PaperFixed(start, epsilon, delta, beta, p, g, centred=False).alpha
    improving = PaperImproving(whole(start, "start"), epsilon, delta, beta, rate_of(p, p, 0, g), free)
    log_beta = math.log(chance(beta, "beta"))

    def ahead(size: int) -> bool:
        falls = 2 / (math.log(2) + 2 * math.log(size) - log_beta) <= 0.5 - free
        return falls and improving.alpha_at(size) <= fixed

    return first_whole(ahead, start - 1, start)
