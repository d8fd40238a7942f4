"""Benchmarks as ratios: ours against a reference, interleaved in one run.

Seconds say more about the machine than about the code, so a claim is always "at most so many times as long as the
reference". Each repetition times both sides back to back and gives one ratio; the claim is about the median of these,
and the spread is reported with it. A benchmark is a file ``bench_NAME.py`` with one function:

    def results() -> Iterator[Result]:
        yield ratio("encoding against ravel_multi_index", ours, reference, limit=3)

A row without a limit claims nothing and is for information: where the reference is the machine itself (its disk, say),
the ratio tells about both. ``count`` says how many things of one kind a call does, on either side; then the row shows
how many that makes a second, ours beside the reference's, and so never without the ratio.

``make bench`` runs them all.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

Action: TypeAlias = Callable[[], object]
Clock: TypeAlias = Callable[[], float]

MOST_CALLS: Final = 2**20
"""The most calls that one timing may take, however short they are."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one comparison gave: a ratio per repetition, and the largest median that is claimed, if any is."""

    name: str
    limit: float | None
    ratios: tuple[float, ...]
    ours_seconds: float
    """The median time of one call: for orientation, never a claim."""
    reference_seconds: float
    count: int | None = None
    """How many things one call does, on either side."""

    def __post_init__(self) -> None:
        if not self.ratios or not all(math.isfinite(each) and each >= 0 for each in self.ratios):
            raise ValueError(f"{self.name}: a result needs at least one finite ratio")
        if self.limit is not None and not 0 < self.limit < math.inf:
            raise ValueError(f"{self.name}: limit must be a positive ratio, not {self.limit}")

    @property
    def median(self) -> float:
        """The ratio that the claim is about."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The middle half of the ratios."""
        if len(self.ratios) == 1:
            return self.ratios[0], self.ratios[0]
        lower, _, upper = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return lower, upper

    @property
    def holds(self) -> bool:
        """Whether the claim holds; what claims nothing does."""
        return self.limit is None or self.median <= self.limit

    @property
    def rates(self) -> tuple[float, float] | None:
        """How many things a second, ours and the reference's."""
        return None if self.count is None else (self.count / self.ours_seconds, self.count / self.reference_seconds)

    def to_json(self) -> dict[str, Any]:
        """A plain form for the results file."""
        rates = {} if self.rates is None else {"a_second": dict(zip(("ours", "reference"), self.rates, strict=True))}
        return {
            "name": self.name,
            "median": self.median,
            "quartiles": list(self.quartiles),
            "range": [min(self.ratios), max(self.ratios)],
            "limit": self.limit,
            "holds": self.holds,
            "repeats": len(self.ratios),
            "seconds": {"ours": self.ours_seconds, "reference": self.reference_seconds},
            **rates,
        }


def ratio(
    name: str,
    ours: Action,
    reference: Action,
    *,
    limit: float | None,
    repeats: int = 7,
    minimum_seconds: float = 0.02,
    clock: Clock = time.perf_counter,
    count: int | None = None,
) -> Result:
    """Time ``ours`` against ``reference``, each ``repeats`` times after a warm-up.

    An action shorter than ``minimum_seconds`` is called as often as it takes to last that long, so the clock's grain
    does not matter. The side that goes first alternates, so a machine that slows down or speeds up favours neither.
    """
    if repeats < 1:
        raise ValueError(f"{name}: repeats must be at least 1, not {repeats}")
    with _no_garbage_collection():
        our_calls = _calls_to_last(minimum_seconds, ours, clock)
        their_calls = _calls_to_last(minimum_seconds, reference, clock)
        timings: list[tuple[float, float]] = []
        for repeat in range(repeats):
            if repeat % 2 == 0:
                mine = _time(ours, our_calls, clock)
                theirs = _time(reference, their_calls, clock)
            else:
                theirs = _time(reference, their_calls, clock)
                mine = _time(ours, our_calls, clock)
            timings.append((mine, theirs))
    if not all(theirs > 0 for _, theirs in timings):
        raise ValueError(f"{name}: the reference took no time that the clock could see")
    return Result(
        name=name,
        limit=limit,
        ratios=tuple(mine / theirs for mine, theirs in timings),
        ours_seconds=statistics.median(mine for mine, _ in timings),
        reference_seconds=statistics.median(theirs for _, theirs in timings),
        count=count,
    )


def report(results: Iterable[Result], path: Path | None = None, out: TextIO | None = None) -> int:
    """Print each result as it comes, write all of them to ``path`` as JSON; 0 if every claim holds, else 1."""
    out = sys.stdout if out is None else out
    columns = f"{'benchmark':<56} {'median':>8} {'quartiles':>17} {'range':>17} {'limit':>7}"
    print(columns, file=out, flush=True)
    gathered: list[Result] = []
    for result in results:
        gathered.append(result)
        print(_row(result), file=out, flush=True)
    if path is not None:
        plain = {"machine": _machine(), "results": [result.to_json() for result in gathered]}
        path.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    broken = sum(not result.holds for result in gathered)
    claims = sum(result.limit is not None for result in gathered)
    others = f"; {len(gathered) - claims} rows for information" if claims < len(gathered) else ""
    print(f"\n{claims} claims, {broken} broken{others}", file=out, flush=True)
    return 1 if broken else 0


def _calls_to_last(minimum_seconds: float, action: Action, clock: Clock) -> int:
    """How many calls take that long. The first call, which is not timed, is the warm-up."""
    action()
    calls = 1
    while calls < MOST_CALLS and _time(action, calls, clock) * calls < minimum_seconds:
        calls *= 2
    return calls


def _time(action: Action, calls: int, clock: Clock) -> float:
    """Seconds per call."""
    start = clock()
    for _ in range(calls):
        action()
    return (clock() - start) / calls


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _row(result: Result) -> str:
    lower, upper = result.quartiles
    quartiles = f"{lower:.3g} to {upper:.3g}"
    spread = f"{min(result.ratios):.3g} to {max(result.ratios):.3g}"
    limit = "none" if result.limit is None else f"{result.limit:.3g}"
    verdict = "" if result.holds else "  BROKEN"
    rates = "" if result.rates is None else "  {:,.0f} a second / {:,.0f}".format(*result.rates)
    return f"{result.name:<56} {result.median:>8.3g} {quartiles:>17} {spread:>17} {limit:>7}{verdict}{rates}"


def _machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
    }
