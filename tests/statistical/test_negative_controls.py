"""Every broken mechanism is caught, and the real one passes where the paper's pseudocode does not.

The chance that one attempt misses a control is computed from exact probabilities; see ``support.audits`` for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import treering as tr
from support.audits import ATTEMPTS, CONFIDENCE, along, catch_rate, caught
from support.broken import DoubleQueryNSG, Exposed, FreshThresholdATG, HalfScaleLaplace, NoiselessNATG, expose
from support.exact_runs import Asked, fresh_transcripts, loss, transcripts
from treering.audit import Stream, grow, lower_bound, worst_pair
from treering.theory.sparse import scales_for

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
LATE = tr.Query.where(SCHEMA, late="yes")

# The counts come close to the threshold in the first steps and keep away later: runs that halt, halt soon, and
# an audit that needs tens of thousands of them is affordable.
STEPS = 100
SILENCE = worst_pair(SCHEMA, inside=1, outside=0, gaps=[-1] * 8 + [-10] * (STEPS - 8))
EPSILON = 4.0
SAMPLES = 88_000

ONE_STEP = worst_pair(SCHEMA, inside=1, outside=0, gaps=[0])

MISS = 0.01
"""The most that a single attempt may miss: all of them together 1e-6."""


def compared(stream: Stream) -> list[Asked]:
    """What ATG with threshold ½ compares along a stream, if it is asked the same query at each step."""
    return [Asked(count - size // 2) for count, size in zip(stream.counts(LATE), stream.sizes, strict=True)]


# -- E1: a fresh threshold at every time step --------------------------------------------------------------------------


def fresh_threshold(stream: Stream) -> Hashable:
    return along(expose(stream), lambda db: FreshThresholdATG(db, 0.5, EPSILON), lambda control, _: control.ask(LATE))


def one_threshold(stream: Stream) -> Hashable:
    return along(grow(stream), lambda db: tr.ATG(db, 0.5, EPSILON), lambda atg, _: atg.ask(LATE))


def test_the_fresh_threshold_of_the_pseudocode_is_caught_by_a_hundred_silent_steps() -> None:
    control = FreshThresholdATG(Exposed(SILENCE[0]), 0.5, EPSILON)
    scales = control.threshold_scale, control.query_scale
    likely, unlikely = (float(fresh_transcripts(compared(stream), *scales)[-1]) for stream in SILENCE)
    assert len(compared(SILENCE[0])) == STEPS
    assert math.log(likely / unlikely) > 1.5 * EPSILON
    assert catch_rate(likely, unlikely, SAMPLES // 2, EPSILON) > 1 - MISS
    assert caught(fresh_threshold, SILENCE, SAMPLES, claimed=EPSILON)


def test_one_threshold_for_the_whole_run_passes_on_the_same_streams() -> None:
    """Not even the exact loss on these streams, well below the promise, is exceeded; and the audit sees some of it."""
    scales = scales_for(EPSILON, 1000, 0.05, numeric=False)
    lost = loss(*(transcripts(compared(stream), scales.threshold, scales.query) for stream in SILENCE))
    assert lost < EPSILON / 3
    assert 0 < lower_bound(one_threshold, *SILENCE, 800, CONFIDENCE) <= lost


# -- the other three ---------------------------------------------------------------------------------------------------


def noiseless_number(stream: Stream) -> Hashable:
    return along(expose(stream), lambda db: NoiselessNATG(db, 0.5, 1.0), lambda control, _: control.ask(LATE))


def test_a_number_without_noise_is_caught() -> None:
    control = NoiselessNATG(Exposed(ONE_STEP[0]), 0.5, 1.0)
    halts = float(transcripts([Asked(0)], control.threshold_scale, control.query_scale)[0])
    assert catch_rate(halts, 0.0, 500, 1.0) > 1 - MISS
    assert caught(noiseless_number, ONE_STEP, samples=1000, claimed=1.0)


def both_sides(stream: Stream) -> Hashable:
    return along(
        expose(stream), lambda db: DoubleQueryNSG(db, 0.0, 2.0), lambda control, _: control.ask(LATE, estimate=0.5)
    )


def test_the_double_query_is_caught() -> None:
    """The event: both sides answer, and both numbers are at most the count on the left."""
    control = DoubleQueryNSG(Exposed(ONE_STEP[0]), 0.0, 2.0)
    p = math.exp(-1 / control.answer_scale)

    def chance(moved: int, low: float) -> float:
        sides = [transcripts([Asked(gap)], control.threshold_scale, control.query_scale)[0] for gap in (moved, -moved)]
        return float(sides[0] * sides[1]) * low**2

    assert catch_rate(chance(0, 1 / (1 + p)), chance(1, p / (1 + p)), 5000, 2.0) > 1 - MISS
    assert caught(both_sides, ONE_STEP, samples=10_000, claimed=2.0)


def half_scale(stream: Stream) -> Hashable:
    return HalfScaleLaplace(next(expose(stream)), 1.0).ask(LATE)


def test_half_the_scale_is_caught() -> None:
    p = math.exp(-2.0)
    assert catch_rate(1 / (1 + p), p / (1 + p), 1000, 1.0) > 1 - MISS
    assert caught(half_scale, ONE_STEP, samples=2000, claimed=1.0)


def test_a_mechanism_that_keeps_its_promise_is_not_caught() -> None:
    """Laplace noise of the full scale: the control that shows that `caught` does not say yes to everything."""
    assert not caught(lambda stream: HalfScaleLaplace(next(expose(stream)), 0.5).ask(LATE), ONE_STEP, 2000, claimed=1.0)


def test_the_stated_miss_rate() -> None:
    assert MISS**ATTEMPTS <= 1.01e-6
    assert catch_rate(0.5, 0.5, 1000, 0.0) < 1 - CONFIDENCE
    assert catch_rate(0.5, 0.1, 50, 1.0) < catch_rate(0.5, 0.1, 500, 1.0)
