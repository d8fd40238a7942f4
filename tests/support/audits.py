"""What the audits of the suite share: how sure they are, and how a mechanism is led along a growing database.

*False alarms.* One run of the suite makes at most `MOST_AUDITS` audits of real mechanisms, each at `CONFIDENCE`: if all
of them keep their promise, the chance that any is accused is at most MOST_AUDITS·(1 − CONFIDENCE) ≤ 1e-6.

*Misses.* A negative control is audited up to `ATTEMPTS` times, each time afresh; a test that says that one attempt
misses with probability m fails with probability m^ATTEMPTS.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Protocol, TypeVar

from scipy.stats import binom

from treering.audit import Stream, clopper_pearson_lower, clopper_pearson_upper, lower_bound

SPARSE_AUDITS: Final = 13
PMWG_AUDITS: Final = 7
BOX_AUDITS: Final = 12
CONTINUAL_AUDITS: Final = 6
SCHEDULER_AUDITS: Final = 4
ERM_AUDITS: Final = 8
ERMG_AUDITS: Final = 4
ERMRINGS_AUDITS: Final = 4
COMMAND_AUDITS: Final = 8
MOST_AUDITS: Final = (
    SPARSE_AUDITS
    + PMWG_AUDITS
    + BOX_AUDITS
    + CONTINUAL_AUDITS
    + SCHEDULER_AUDITS
    + ERM_AUDITS
    + ERMG_AUDITS
    + ERMRINGS_AUDITS
    + COMMAND_AUDITS
)
"""What the audits of each family make at most, those of tests of the command line included, and all of them."""
CONFIDENCE: Final = 1 - 1.5e-8
ATTEMPTS: Final = 3


class Halting(Protocol):
    """A mechanism that may be over."""

    @property
    def halted(self) -> bool: ...


Database = TypeVar("Database")
Mechanism = TypeVar("Mechanism", bound=Halting)
Answer = TypeVar("Answer", bound=Hashable)


def along(
    databases: Iterable[Database],
    begin: Callable[[Database], Mechanism],
    ask: Callable[[Mechanism, tuple[Answer, ...]], Answer],
) -> tuple[Answer, ...]:
    """The answers of one run: at each size of a growing database one question, which may depend on the answers so
    far."""
    mechanism: Mechanism | None = None
    answers: tuple[Answer, ...] = ()
    for database in databases:
        mechanism = begin(database) if mechanism is None else mechanism
        answers += (ask(mechanism, answers),)
        if mechanism.halted:
            break
    return answers


def caught(run: Callable[[Stream], Hashable], pair: tuple[Stream, Stream], samples: int, claimed: float) -> bool:
    """Whether a broken mechanism is found to lose more than it claims."""
    return any(lower_bound(run, *pair, samples, CONFIDENCE) > claimed for _ in range(ATTEMPTS))


def catch_rate(likely: float, unlikely: float, tested: int, claimed: float, delta: float = 0.0) -> float:
    """The probability that testing an event with these two probabilities gives a bound above the claim.

    Summed over the number of hits on the unlikely side; for each, the hits needed on the likely side.
    """
    alpha = (1 - CONFIDENCE) / 2
    total = 0.0
    for misses in range(int(binom.isf(1e-12, tested, unlikely)) + 1):
        goal = math.exp(claimed) * clopper_pearson_upper(misses, tested, alpha) + delta
        needed = bisect_right(range(tested + 1), goal, key=lambda hits: clopper_pearson_lower(hits, tested, alpha))
        total += float(binom.pmf(misses, tested, unlikely) * binom.sf(needed - 1, tested, likely))
    return total
