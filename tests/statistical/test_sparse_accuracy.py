"""The accuracy theorem of sparse vector, sampled: errors beyond alpha in at most a beta share of the runs.

The binomial margin is stated: with a true failure rate of exactly beta, each test would fail with probability below
1e-7. The bounds are also tight enough to mean something: at a tenth of alpha the same runs do fail more often than
beta.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import treering as tr
from treering.audit.neighbours import Stream, grow

SCHEMA = tr.Schema({"value": tr.integers(0, 99)})
REPEATS, BETA, QUERIES = 800, 0.05, 40
MOST = int(binom.isf(1e-7, REPEATS, BETA))
THRESHOLD = 0.5


def failures(mechanism: type[tr.ATG] | type[tr.NATG], two_sided: bool, scale: float) -> int:
    """How many of the runs break the theorem's promise at ``scale`` times its alpha."""
    generator = np.random.default_rng(11)
    batches = tuple(tuple(generator.integers(0, 100, 300).tolist()) for _ in range(4))
    stream = Stream(SCHEMA, batches)
    prefixes = [tr.Query.where(SCHEMA, value=range(k)) for k in np.linspace(30, 70, QUERIES // 4).astype(int)]
    truths = [np.array(stream.counts(query)) / np.array(stream.sizes) for query in prefixes]
    return sum(_fails(mechanism, stream, prefixes, truths, two_sided, scale) for _ in range(REPEATS))


def _fails(
    mechanism: type[tr.ATG] | type[tr.NATG],
    stream: Stream,
    queries: list[tr.Query],
    truths: list[np.ndarray[tuple[int], np.dtype[np.float64]]],
    two_sided: bool,
    scale: float,
) -> bool:
    asked: tr.ATG | tr.NATG | None = None
    threshold = THRESHOLD / 4 if two_sided else THRESHOLD
    for step, db in enumerate(grow(stream)):
        asked = mechanism(db, threshold, 1.0, queries=QUERIES, beta=BETA) if asked is None else asked
        alpha = scale * asked.guarantee.alpha
        for query, truth in zip(queries, truths, strict=True):
            answer = asked.ask(query, estimate=0.45 if two_sided else None)
            share = abs(truth[step] - 0.45) if two_sided else truth[step]
            if answer is None or answer is False:
                if share > threshold + alpha:
                    return True
                continue
            return bool(share < threshold - alpha or (answer is not True and abs(answer - truth[step]) > alpha))
    return False


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("mechanism", [tr.ATG, tr.NATG])
def test_accuracy(mechanism: type[tr.ATG] | type[tr.NATG], two_sided: bool) -> None:
    assert failures(mechanism, two_sided, scale=1.0) <= MOST


@pytest.mark.parametrize("mechanism", [tr.ATG, tr.NATG])
def test_the_test_has_power(mechanism: type[tr.ATG] | type[tr.NATG]) -> None:
    assert failures(mechanism, two_sided=False, scale=0.1) > MOST
