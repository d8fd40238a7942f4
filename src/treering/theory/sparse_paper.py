"""The paper's theorems on ATG, NATG and NSG, for linear queries (Δ_t = 1/t).

At size t the paper compares f + Lap(4/ξ_t) with T + η/ξ_t, η one draw of Lap(2) per run, and answers f + Lap(8/ξ_t).
ξ must not fall, and ξ_t/t must not rise. A stream is given by sequences, one entry per size, from the starting size
on.

This per-step schedule lives in formulas only. The pseudocode's fresh threshold at every size is not private (erratum
E1), and with one η per run the noise in *rows*, 2t/ξ_t and 4t/ξ_t, grows with t while the privacy loss is that of the
start. The mechanisms freeze the scales in rows at the run's start: the same loss, and never more noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from treering.errors import GuaranteeError, ParameterError
from treering.params import exact


def paper_noise(size: int, coefficient: float, p: float) -> float:
    """ξ_t = c·t^p; 0 ≤ p ≤ 1 meets the theorems' conditions."""
    if not 0 <= p <= 1:
        raise ParameterError("p", f"must lie between 0 and 1, not {p}")
    return float(exact(coefficient, "coefficient")) * math.pow(exact(size, "size"), p)


def paper_scales(size: int, xi: float) -> tuple[float, float, float]:
    """Noise scales in rows at size t: threshold 2t/ξ, query 4t/ξ, answer 8t/ξ.

    Taken at a run's start and frozen, they cost ξ_{t0}/t0, the theorem's loss.

    >>> paper_scales(1000, 50.0)
    (40.0, 80.0, 160.0)
    """
    unit = float(exact(size, "size")) / float(exact(xi, "xi"))
    return 2 * unit, 4 * unit, 8 * unit


def paper_atg_loss(start: int, xi: float) -> float:
    """Theorem "Privacy of ATG": a run started at size t0 is ξ_{t0}/t0-DP, whenever it halts."""
    return float(exact(xi, "xi") / exact(start, "start"))


def paper_natg_loss(start: int, start_xi: float, end: int, end_xi: float) -> float:
    """Theorem "Privacy of NATG": ξ_{t0}/t0 + ξ_{t'}/(8t') for a run that halts at size t'."""
    _check_schedule(start, [start_xi])
    if end < start or end_xi < start_xi or end_xi / end > start_xi / start * (1 + 1e-12):
        raise GuaranteeError("the paper's theorems need xi not to fall and xi/size not to rise from start to end")
    return paper_atg_loss(start, start_xi) + paper_atg_loss(end, end_xi) / 8


def paper_nsg_loss(start: int, xi: Sequence[float], hard: Sequence[int]) -> float:
    """Theorem "Privacy of NSG": ξ_n/n + (9/8)·Σ h_t·ξ_t/t, where h_t queries are hard at size t."""
    _check_schedule(start, xi)
    _check_counts(xi, hard, "hard")
    rounds = math.fsum(count * value / size for size, (value, count) in enumerate(zip(xi, hard, strict=True), start))
    return paper_atg_loss(start, xi[0]) + 9 / 8 * rounds


def paper_atg_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    """Theorem "Accuracy of ATG": β = Σ ℓ_t·e^{−αξ_t/8} + e^{−αξ_{t0}/8}, with ℓ_t queries at size t."""
    return _stream_beta(alpha, xi, queries) + _decay(alpha, xi[0])


def paper_natg_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    """Theorem "Accuracy of NATG": that of ATG + e^{−αξ_{t'}/8}, t' the last size."""
    return paper_atg_beta(alpha, xi, queries) + _decay(alpha, xi[-1])


def paper_nsg_beta(
    alpha: float, xi: Sequence[float], queries: Sequence[int], hard: Sequence[int] | None = None
) -> float:
    """Theorem "Accuracy of NSG": β = e^{−αξ_n/8} + Σ (ℓ_t + 2h_t)·e^{−αξ_t/8}.

    h_t counts the queries with f ≥ T − α at size t. Without ``hard`` all may be: the theorem's second form, 3·Σ
    ℓ_t·e^{−αξ_t/8}.
    """
    reruns = _stream_beta(alpha, xi, queries if hard is None else hard)
    return paper_atg_beta(alpha, xi, queries) + 2 * reruns


def _stream_beta(alpha: float, xi: Sequence[float], queries: Sequence[int]) -> float:
    exact(alpha, "alpha")
    _check_growth(xi)
    _check_counts(xi, queries, "queries")
    return math.fsum(count * _decay(alpha, value) for value, count in zip(xi, queries, strict=True))


def _decay(alpha: float, xi: float) -> float:
    return math.exp(-alpha * xi / 8)


def _check_schedule(start: int, xi: Sequence[float]) -> None:
    exact(start, "start")
    _check_growth(xi)
    ratios = [value / size for size, value in enumerate(xi, start)]
    # Computed schedules such as t^1 may wobble in the last bits.
    if any(later > earlier * (1 + 1e-12) for earlier, later in pairwise(ratios)):
        raise GuaranteeError("the paper's theorems need xi/size not to rise with the size")


def _check_growth(xi: Sequence[float]) -> None:
    if not xi:
        raise ParameterError("xi", "must have at least one entry")
    for value in xi:
        exact(value, "xi")
    if any(later < earlier * (1 - 1e-12) for earlier, later in pairwise(xi)):
        raise GuaranteeError("the paper's theorems need xi not to fall as the size grows")


def _check_counts(xi: Sequence[float], counts: Sequence[int], name: str) -> None:
    if len(counts) != len(xi) or any(count < 0 for count in counts):
        raise ParameterError(name, "must hold one count of at least 0 for each entry of xi")
