"""The public histogram: easy queries and growth do not see N, hard ones cost a pass over the cells they touch."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Result, ratio
from treering.arrays import Floats
from treering.domain.attribute import integers
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.mechanisms.histogram.blocks import Tabulated, zeros
from treering.mechanisms.histogram.hypothesis import Hypothesis, Step

UPDATES = 1_000_000


def results() -> Iterator[Result]:
    """Everything about N is measured with attributes of 16 values."""
    yield from _easy()
    yield from _hard_after_growth()
    yield from _hard_in_a_row()
    yield from _marginals()
    yield _mass()
    yield _memory()


def universe(power: int) -> Schema:
    """16^power cells."""
    return Schema({f"a{axis}": integers(0, 15) for axis in range(power)})


def still(query: Query) -> Step:
    """A step that takes the time of a step and leaves the histogram where it is."""
    return Step(query, (1.0, 1.0), 0.0, 0.0)


def moved(schema: Schema) -> Hypothesis:
    """A histogram that has learnt something."""
    hypothesis = Hypothesis(schema)
    for name in ("a0", "a1", "a2"):
        hypothesis.project(Query.where(schema, **{name: [3, 4]}), 0.3)
    return hypothesis


# -- easy queries ------------------------------------------------------------------------------------------------------


def _easy() -> Iterator[Result]:
    small, large = _asker(3), _asker(6)
    yield ratio("growth and one easy answer, N=2^24 / N=2^12", lambda: large(1), lambda: small(1), limit=1.5)
    yield ratio("growth and 1,000 easy answers, N=2^24 / N=2^12", lambda: large(1000), lambda: small(1000), limit=1.5)


def _asker(power: int) -> Callable[[int], object]:
    hypothesis = moved(universe(power))
    query = Query.where(hypothesis.schema, a0=range(8), a1=[1, 2, 5], a2=range(3, 9))

    def ask(count: int) -> object:
        hypothesis.grow(1e-9)
        return hypothesis.answer_many([query] * count)

    return ask


# -- hard queries ------------------------------------------------------------------------------------------------------


def _hard_after_growth() -> Iterator[Result]:
    """All cells are touched: the uniform part is folded in on the way.

    Processor time, which other programs disturb least. 2^20 cells fit the cache: a pass over them is so short, 0.09 ms,
    that what does not depend on N counts, 0.02 ms of Python. There medians were 1.29 to 1.45 in four runs at loads of 4
    to 7 (1.26 to 1.36 by the wall clock at a load of 1.3), and up to 1.52 beside programs made to fill the cache;
    with 2^24 cells 1.04 to 1.06. Steps made to take half as long again gave 2.06 and 2.15, and 1.52 and 1.56.
    """
    scale = _compiled(_scale_all)
    for power, limit in ((5, 1.7), (6, 1.4)):
        hypothesis, cells = moved(universe(power)), _ones(16**power)
        names = hypothesis.schema.names
        for label, chosen in (("first", names[:3]), ("last", names[-3:])):
            step = still(Query.where(hypothesis.schema, **dict.fromkeys(chosen, range(2, 9))))

            def ours(hypothesis: Hypothesis = hypothesis, step: Step = step) -> None:
                hypothesis.grow(1e-9)
                hypothesis.apply(step)

            name = f"hard after growth, {label} three of {power}, N=2^{4 * power} / a pass"
            reference = partial(scale, cells, 0.999999)
            yield ratio(name, ours, reference, limit=limit, repeats=21, clock=time.process_time)


def _hard_in_a_row() -> Iterator[Result]:
    """Without growth in between only the block is touched: 7 of 16 values of each of two attributes."""
    scale, codes = _compiled(_scale_two), np.arange(2, 9)
    hypothesis, cells = moved(universe(6)), _ones(16**6)
    for first, second in ((0, 1), (1, 3), (2, 5)):
        names = [hypothesis.schema.names[axis] for axis in (first, second)]
        step = still(Query.where(hypothesis.schema, **dict.fromkeys(names, range(2, 9))))
        folded = cells.reshape(16**first, 16, 16 ** (second - first - 1), 16, -1)
        name = f"hard again, {' and '.join(names)} of 6, N=2^24 / a pass over the block"
        yield ratio(name, partial(hypothesis.apply, step), partial(scale, folded, codes, 0.999999), limit=1.5)


def _marginals() -> Iterator[Result]:
    """A marginal that could not follow is one pass over the vector."""
    scale, cells = _compiled(_scale_all), _ones(16**6)
    vector = Tabulated(np.random.default_rng(1).random(16**6), (16,) * 6)
    for axes in ((0, 1, 2), (1, 3, 5), (3, 4, 5)):

        def ours(axes: tuple[int, ...] = axes) -> object:
            vector.forget()
            return vector.sums(axes)

        name = f"a marginal anew, {axes} of 6, N=2^24 / a pass"
        yield ratio(name, ours, partial(scale, cells, 0.999999), limit=2)


def _ones(cells: int) -> Floats:
    """What a reference passes over. It begins with a cache line, as ours does: NumPy's own begin anywhere, from one
    run to the next, and in the cache a pass then takes 1.0 or 1.5 times as long."""
    ones = zeros(cells)
    ones += 1
    return ones


def _scale_all(cells: Any, factor: Any) -> None:
    for index in range(len(cells)):
        cells[index] *= factor


def _scale_two(cells: Any, codes: Any, factor: Any) -> None:
    """The block of two attributes, as one would write it by hand."""
    for before in range(cells.shape[0]):
        for first in codes:
            for between in range(cells.shape[2]):
                for second in codes:
                    for behind in range(cells.shape[4]):
                        cells[before, first, between, second, behind] *= factor


def _compiled(kernel: Callable[..., None]) -> Callable[..., None]:
    from numba import njit

    compiled: Callable[..., None] = njit(nogil=True)(kernel)
    return compiled


# -- a long life, a large universe -------------------------------------------------------------------------------------


def _mass() -> Result:
    """How far the total mass is from one, at worst, on the way through a million steps to extreme targets."""
    schema = Schema({"a": integers(0, 3), "b": integers(0, 3)})
    generator = np.random.default_rng(6)
    masks = [{p: generator.permutation([True, True, False, False]) for p in (0, 1)} for _ in range(20)]
    queries = [Query.conjunction(schema, each) for each in masks]
    shares = [*(10.0**-k for k in range(1, 13)), *(1 - 10.0**-k for k in range(1, 13))]
    picks, targets = generator.integers(0, len(queries), UPDATES), generator.choice(shares, UPDATES)
    hypothesis, errors = Hypothesis(schema), [0.0]
    start = time.perf_counter()
    for turn, (pick, target) in enumerate(zip(picks.tolist(), targets.tolist(), strict=True)):
        # The first half with growth; the second without, where cells come down to the floor.
        if turn % 3 == 0 and turn < UPDATES // 2:
            hypothesis.grow(1e-4)
        hypothesis.project(queries[pick], target)
        if turn % 997 == 0:
            cells = hypothesis.marginal(schema.names)
            if cells.min() <= 0:
                raise AssertionError("a cell has vanished")
            errors.append(abs(math.fsum(cells.flat) - 1))
    seconds = time.perf_counter() - start
    return Result("error of the total mass in 10^6 steps / 10^-12", 1, (max(errors) / 1e-12,), seconds, seconds)


LARGEST = """
import re
from pathlib import Path
import numpy as np
from benchmarks.bench_hypothesis import Hypothesis, Query, integers, moved, Schema, universe

def memory(kind):
    # Not getrusage: a child starts with its parent's peak there.
    return 1024 * int(re.search(kind + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

moved(universe(3)).sample(3)
schema = Schema({f"a{axis}": integers(0, 15) for axis in range(6)} | {"b": integers(0, 3)})
hypothesis = Hypothesis(schema)
before = memory("VmRSS")
for _ in range(3):
    hypothesis.project(Query.where(schema, a0=[1, 2], a3=5, b=[0, 1]), 0.3)
    hypothesis.project(Query.where(schema, a1=1) | Query.where(schema, a4=2), 0.3)
    hypothesis.project(Query.weighted(schema, np.linspace(0, 1, 16), attributes=["a5"]), 0.4)
    hypothesis.grow(0.01)
    hypothesis.answer_many([Query.where(schema, **{name: 3, "b": 1}) for name in schema.names[:6]])
hypothesis.answer(Query.where(schema, **{name: range(3) for name in schema.names}))
hypothesis.sample(1000)
hypothesis.sample(1000, np.random.default_rng(1))
print((memory("VmHWM") - before) / (8 * schema.cells))
"""


def _memory() -> Result:
    """Peak memory of everything one can do with 2^26 cells, in vectors of doubles."""
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", LARGEST], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    return Result("peak memory with N=2^26 / a vector of doubles", 3, (float(run.stdout),), seconds, seconds)
