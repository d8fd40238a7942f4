"""Statistical lower bounds on epsilon: how well can two neighbours be told apart by what a mechanism releases?

An attack is an event, a set of outcomes. (ε, δ)-DP promises P(event | left) ≤ e^ε·P(event | right) + δ for every
event, and both ways round. So one event whose two probabilities are known with confidence bounds ε from below:

    ε  ≥  log((p − δ)/q)        p a lower bound on the one probability, q an upper bound on the other.

The event is chosen on one half of the samples and tested, once, on the other half: the confidence holds whatever the
outcomes are and however the event was found.

p and q are exact binomial confidence bounds (Clopper and Pearson 1934), always rounded to the safe side: for ``k`` hits
in ``n`` independent trials of unknown probability p, the lower bound is the p at which "k hits or more" has probability
α, so it exceeds the true p with probability at most α, for every p and n. The upper bound mirrors it.

The root is found by Newton's method on u = log p. With B = P(exactly k) and S = P(k or more)/B,

    d log P(k or more) / du = k / S,

and S increases with p: the function is concave in u, so every step after the first climbs towards the root from below.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from treering.errors import ParameterError
from treering.params import probability

Input = TypeVar("Input")
Side: TypeAlias = Literal["left", "right"]
SamplesDone: TypeAlias = Callable[[int, int], None]
"""A callback for progress: called with the number of runs that are done and the number of all runs."""

_SMOOTHING: Final = 0.5
"""Added to both counts of an outcome before their ratio ranks it (Krichevsky and Trofimov)."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found: with the stated confidence, the mechanism is (e, delta)-DP for no e below ``epsilon``."""

    epsilon: float
    """The lower bound; 0 if the event did not tell the sides apart."""
    delta: float
    confidence: float
    samples: int
    """Runs on each side, both halves together."""
    tested: int
    """Runs on each side in the half that tested the event."""
    favours: Side
    """The side on which the event is more likely."""
    outcomes: int
    """How many different outcomes the event consists of."""
    left_hits: int
    """How often the event happened among the tested runs on the left."""
    right_hits: int
    """How often the event happened among the tested runs on the right."""


def lower_bound(
    run: Callable[[Input], Hashable],
    left: Input,
    right: Input,
    samples: int,
    confidence: float,
    delta: float = 0.0,
    progress: SamplesDone | None = None,
) -> float:
    """A lower bound on the epsilon of a mechanism, from ``samples`` independent runs on each of two neighbours.

    - ``run``: ``run(stream)`` makes one fresh run of the mechanism on a stream and returns all that it released, as
      something hashable
    - ``left``, ``right``: the two neighbouring streams
    - ``samples``: the number of runs on each of them; one half chooses the event, the other tests it
    - ``confidence``: the probability with which the bound holds, in (0, 1)
    - ``delta``: the delta of the claim
    - ``progress``: called after each pair of runs

    Guarantee: if the mechanism is (epsilon, delta)-DP for these two neighbours, the result exceeds epsilon with
    probability at most 1 − confidence, whatever the outcomes are. It is never below 0. (The converse does not hold: a
    small result is no proof of privacy.)

    >>> import secrets
    >>> coin = lambda bit: bit if secrets.randbelow(4) else 1 - bit     # tells the truth three times out of four: log 3
    >>> 0.3 < lower_bound(coin, 0, 1, samples=2000, confidence=1 - 1e-9) < math.log(3)
    True
    """
    return audit(run, left, right, samples, confidence, delta, progress).epsilon


def audit(
    run: Callable[[Input], Hashable],
    left: Input,
    right: Input,
    samples: int,
    confidence: float,
    delta: float = 0.0,
    progress: SamplesDone | None = None,
) -> Audit:
    """`lower_bound`, with the evidence behind it; parameters are the same.

    Runs on the two sides alternate, so that slow drift of the machine affects both alike.
    """
    alpha = _check(samples, confidence, delta)
    half = samples // 2
    chosen_on, tested_on = _Tally(), _Tally()
    for index in range(samples):
        tally = chosen_on if index < half else tested_on
        tally.left[_outcome(run, left)] += 1
        tally.right[_outcome(run, right)] += 1
        if progress is not None:
            progress(2 * index + 2, 2 * samples)
    event = _choose(chosen_on, alpha, delta)
    left_hits, right_hits = tested_on.hits(event.outcomes)
    likely, unlikely = (left_hits, right_hits) if event.favours == "left" else (right_hits, left_hits)
    return Audit(
        epsilon=max(0.0, _bound(likely, unlikely, samples - half, alpha, delta)),
        delta=delta,
        confidence=confidence,
        samples=samples,
        tested=samples - half,
        favours=event.favours,
        outcomes=len(event.outcomes),
        left_hits=left_hits,
        right_hits=right_hits,
    )


@dataclass(frozen=True, slots=True)
class _Tally:
    """How often each outcome was seen on the two sides."""

    left: Counter[Hashable] = field(default_factory=Counter)
    right: Counter[Hashable] = field(default_factory=Counter)

    def hits(self, outcomes: frozenset[Hashable]) -> tuple[int, int]:
        return sum(self.left[outcome] for outcome in outcomes), sum(self.right[outcome] for outcome in outcomes)


@dataclass(frozen=True, slots=True)
class _Event:
    favours: Side
    outcomes: frozenset[Hashable]
    promise: float
    """The bound on epsilon by the samples that the event was chosen on."""


def _choose(tally: _Tally, alpha: float, delta: float) -> _Event:
    """The event with the largest bound on these samples, among those of likelihood ratio tests."""
    left = _best_prefix("left", tally.left, tally.right, alpha, delta)
    right = _best_prefix("right", tally.right, tally.left, alpha, delta)
    return max(left, right, key=lambda event: event.promise)


def _best_prefix(
    favours: Side, likely: Counter[Hashable], unlikely: Counter[Hashable], alpha: float, delta: float
) -> _Event:
    trials = likely.total()
    ranked = _ranked(likely, unlikely)
    hits = misses = length = 0
    best = -math.inf
    for index, ((more, fewer), outcomes) in enumerate(ranked, start=1):
        hits += more * len(outcomes)
        misses += fewer * len(outcomes)
        bound = _bound(hits, misses, trials, alpha, delta)
        if bound > best:
            best, length = bound, index
    return _Event(favours, frozenset(outcome for _, each in ranked[:length] for outcome in each), best)


def _ranked(likely: Counter[Hashable], unlikely: Counter[Hashable]) -> list[tuple[tuple[int, int], list[Hashable]]]:
    """Outcomes grouped by their two counts, the group with the largest (smoothed) likelihood ratio first."""
    groups: defaultdict[tuple[int, int], list[Hashable]] = defaultdict(list)
    for outcome in likely.keys() | unlikely.keys():
        groups[likely[outcome], unlikely[outcome]].append(outcome)
    return sorted(
        groups.items(), key=lambda group: (group[0][0] + _SMOOTHING) / (group[0][1] + _SMOOTHING), reverse=True
    )


def _bound(hits: int, misses: int, trials: int, alpha: float, delta: float) -> float:
    """log((p − δ)/q), each probability bounded at level alpha; −∞ where p − δ is not above 0."""
    likely = clopper_pearson_lower(hits, trials, alpha) - delta
    if likely <= 0:
        return -math.inf
    return math.log(likely / clopper_pearson_upper(misses, trials, alpha))


def _outcome(run: Callable[[Input], Hashable], stream: Input) -> Hashable:
    outcome = run(stream)
    try:
        hash(outcome)
    except TypeError:
        raise ParameterError("run", "must return something hashable, such as a tuple of numbers") from None
    return outcome


def _check(samples: int, confidence: float, delta: float) -> float:
    """The level of each of the two confidence bounds."""
    alpha = float((1 - probability(confidence, "confidence")) / 2)
    if delta != 0:
        probability(delta, "delta")
    # Even if every tested run hit on one side and none on the other, log((α^{1/m} − δ)/(1 − α^{1/m})) must be above 0.
    needed = 2 * (math.floor(math.log(alpha) / math.log((1 + delta) / 2)) + 1)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < needed:
        raise ParameterError("samples", f"must be an integer, at least {needed} for this confidence and delta")
    return alpha


# -- exact binomial confidence bounds ----------------------------------------------------------------------------------


_NUDGE: Final = 1e-11
"""The relative safety margin of the bounds: far above the solver's rounding errors (about 1e-14), and far too small to
matter."""

_SMALLEST: Final = 1e-200
"""The smallest α: below it the bounds could leave the range of floats."""

_STEPS: Final = 200
"""The most steps of Newton's method, which takes about ten."""


def clopper_pearson_lower(hits: int, trials: int, alpha: float) -> float:
    """A lower bound on a probability, from ``hits`` in ``trials``: above the true one with probability ≤ ``alpha``.

    >>> round(clopper_pearson_lower(7, 10, 0.025), 6)
    0.347547
    """
    _check_hits(hits, trials, alpha)
    if hits == 0:
        return 0.0
    return math.exp(_log_root(hits, trials, alpha)) * (1 - _NUDGE)


def clopper_pearson_upper(hits: int, trials: int, alpha: float) -> float:
    """An upper bound on a probability, from ``hits`` in ``trials``: below the true one with probability ≤ ``alpha``.

    >>> round(clopper_pearson_upper(0, 100, 0.05), 6)
    0.029513
    """
    _check_hits(hits, trials, alpha)
    if hits == trials:
        return 1.0
    return min(1.0, -math.expm1(_log_root(trials - hits, trials, alpha)) * (1 + _NUDGE))


def _check_hits(hits: int, trials: int, alpha: float) -> None:
    if not _SMALLEST <= alpha <= 0.5:
        raise ParameterError("alpha", f"must lie between {_SMALLEST} and 0.5, not {alpha}")
    if trials < 1:
        raise ParameterError("trials", f"must be at least 1, not {trials}")
    if not 0 <= hits <= trials:
        raise ParameterError("hits", f"must lie between 0 and trials = {trials}, not {hits}")


def _log_root(k: int, n: int, alpha: float) -> float:
    """The u = log p at which P(k or more of n) = α, for k ≥ 1."""
    target = math.log(alpha)
    if k == n:
        return target / n
    u = math.log1p((k - n) / n)
    # P(k or more) ≤ (n choose k)·p^k ≤ (enp/k)^k, so the root lies above this; the first step may fall far below.
    floor = u - 1 + target / k
    for _ in range(_STEPS):
        ratio = _tail_ratio(k, n, u)
        step = (target - _log_mass(k, n, u) - math.log(ratio)) * ratio / k
        u, before = max(u + step, floor), u
        if abs(u - before) <= 1e-15 * abs(u):
            break
    return u


def _tail_ratio(k: int, n: int, u: float) -> float:
    """S = P(k or more)/P(exactly k): the series of successive ratios, cut where terms are below rounding errors."""
    odds = math.exp(u) / -math.expm1(u)
    term = total = 1.0
    for i in range(k + 1, n + 1):
        term *= (n - i + 1) / i * odds
        total += term
        if term < 1e-17 * total:
            break
    return total


def _log_mass(k: int, n: int, u: float) -> float:
    """log P(exactly k of n), 0 < k < n, by Loader's saddle-point expansion (2000): no cancellation for large n."""
    p, q = math.exp(u), -math.expm1(u)
    correction = _stirling_error(n) - _stirling_error(k) - _stirling_error(n - k)
    return correction - _deviance(k, n * p) - _deviance(n - k, n * q) + 0.5 * math.log(n / (math.tau * k * (n - k)))


def _stirling_error(n: int) -> float:
    """log n! minus Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(math.tau)
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(x: int, mean: float) -> float:
    """x·log(x/mean) + mean − x, by a series where that cancels."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - difference
    v = difference / (x + mean)
    total, power = difference * v, 2 * x * v
    for j in range(3, 1000, 2):
        power *= v * v
        before, total = total, total + power / j
        if total == before:
            break
    return total
