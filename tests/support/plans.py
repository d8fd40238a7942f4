"""Questions to a mechanism by way of their plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest

from treering.answer import Answer, Estimate
from treering.domain.language.items import Item, counts
from treering.domain.language.measures import Request
from treering.domain.language.parse import Question, understand_all
from treering.mechanisms.base import Answering
from treering.mechanisms.plan import Plan
from treering.mechanisms.rings import Rings
from treering.mechanisms.series.drawing import Drawing
from treering.mechanisms.series.policy import Policy, Steps
from treering.mechanisms.series.ring import Ring


def plan_of(mechanism: Answering, queries: Iterable[Question], within: float | None = None) -> Plan:
    """The plan for counts."""
    found = understand_all(queries, mechanism.schema, finer=mechanism.follows_schema)
    return mechanism.plan(counts(found), within)


def batch_price(mechanism: Answering, queries: Iterable[Question], within: float | None = None) -> Fraction:
    """The price of counts."""
    return plan_of(mechanism, queries, within).price


def answers_of(mechanism: Answering, queries: Iterable[Question], within: float | None = None) -> list[Answer]:
    """The answers to counts."""
    return mechanism.execute(plan_of(mechanism, queries, within)).answers()


def known_answers(
    mechanism: Answering, queries: Iterable[Question], within: float | None = None
) -> list[Answer] | None:
    """The answers to counts that are known already; None if something must be released."""
    known = plan_of(mechanism, queries, within).known
    return None if known is None else known.answers()


def estimates_of(mechanism: Answering, items: Sequence[Item], within: float | None = None) -> list[Estimate]:
    """What a mechanism says about some items."""
    return mechanism.execute(mechanism.plan(items, within)).estimates()


def noise_in(mechanism: Answering, items: Sequence[Item]) -> Drawing:
    """The noise of what it says."""
    found = mechanism.execute(mechanism.plan(items)).drawing()
    assert found is not None
    return found


def request_price(rings: Rings, request: Request, within: float | None = None) -> Fraction:
    """The price of a request."""
    return rings.plan(rings.items_of(request), within).price


def carry_out(rings: Rings, steps: Steps) -> None:
    """Renew and open series."""
    rings._shelf.move(steps.stale, steps.fresh)


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """How often rings decide what to measure (``plans``), and read an estimate (``readings``), in the block."""
    counts: Counter[str] = Counter()
    places = [(Policy, "steps", "plans"), (Ring, "readings", "readings"), (Ring, "sum_readings", "readings")]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, counted in places:
            patch.setattr(owner, name, _counting(getattr(owner, name), counts, counted))
        yield counts


def _counting(function: Callable[..., Any], counts: Counter[str], name: str) -> Callable[..., Any]:
    def count(*arguments: Any) -> Any:
        counts[name] += 1
        return function(*arguments)

    return count
