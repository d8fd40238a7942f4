"""Answers, prices and guarantees: the values that every mechanism returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from treering.words import counted, readable

Kind: TypeAlias = Literal["easy", "hard", "measured", "cached", "synthetic", "estimate"]

Tail: TypeAlias = Literal["normal", "log-concave", "together"]
"""What is known of the noise of a number: it is normal; it is symmetric and log-concave; or nothing, but that all
answers of the mechanism keep their errors together."""

_DUST: Final = 1e-6
"""Rows that rounding errors may come to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One released answer: everything in it is public.

    >>> answer = Answer(value=0.25, error=0.01, size=1000, kind="easy")
    >>> answer.count, answer.margin
    (250, 0.01)
    """

    value: float
    """The share of the rows that match the query, within [0, 1]."""
    error: float
    """A bound on |value − true share|. With probability at least 1 − beta, all of a mechanism's answers keep theirs."""
    size: int
    """The number of rows of the database that the answer is about."""
    kind: Kind
    """Where the answer came from: "easy", the public histogram; "hard", a measurement after the sparse-vector guard
    found the histogram wrong; "measured", any other measurement; "cached", an earlier answer that still holds;
    "synthetic", synthetic data released earlier; "estimate", a distribution fitted to what was released: without a
    bound, so that its error and margin are 1."""
    margin: float = math.nan
    """The half-width that holds for this answer alone with 95%: what a person means by ±. That is so if the question
    was chosen without looking at the noise that the answer uses. Never above ``error``, and the same where no better
    statement is proven."""
    of: str = "rows"
    """What is counted: rows, persons, or rows of which at most so many of each person count. ``size`` is the number of
    all rows or persons."""

    def __post_init__(self) -> None:
        if not self.margin <= self.error:
            object.__setattr__(self, "margin", self.error)

    def _repr_html_(self) -> str:
        """The answer in a notebook, with its interval on a line from no rows to all."""
        low, high = (240 * min(1.0, max(0.0, self.value + side * self.margin)) for side in (-1, 1))
        return (
            f"<div><b>{self.count:,} ± {self.count_margin:,}</b> of {self._all} "
            f"({self.value:.2%} ± {self.margin:.2%}, 95%)<br>"
            f'<svg width="240" height="14" role="img" aria-label="{self.value:.1%} of the {self.of}">'
            '<line x1="0" y1="7" x2="240" y2="7" stroke="#9ca3af"/>'
            f'<line x1="{low:.1f}" y1="7" x2="{high:.1f}" y2="7" stroke="#2563eb" stroke-width="6"/>'
            f'<circle cx="{240 * self.value:.1f}" cy="7" r="4" fill="#1e3a8a"/></svg><br>'
            f"<small>± {self.count_error:,} for all answers together; {self.kind}</small></div>"
        )

    @property
    def _all(self) -> str:
        return counted(self.size, "person" if self.of == "persons" else "row")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON: `Answer(value, error, size, kind, margin, of)` makes it again, exactly."""
        return {
            "value": self.value,
            "margin": self.margin,
            "error": self.error,
            "count": self.count,
            "count_margin": self.count_margin,
            "count_error": self.count_error,
            "size": self.size,
            "kind": self.kind,
            "of": self.of,
        }

    @property
    def count(self) -> int:
        """The number of matching rows: ``value`` times ``size``, rounded."""
        return round(self.value * self.size)

    @property
    def count_error(self) -> int:
        """The error in rows: the least that holds every whole number of rows within ``error`` of ``value``."""
        return self._whole(self.error)

    @property
    def count_margin(self) -> int:
        """The margin in rows: the least that holds every whole number of rows within ``margin`` of ``value``."""
        return self._whole(self.margin)

    @property
    def low(self) -> float:
        """The lower end of the 95% interval: ``value`` − ``margin``, and 0 at least."""
        return max(0.0, self.value - self.margin)

    @property
    def high(self) -> float:
        """The upper end of the 95% interval: ``value`` + ``margin``, and 1 at most."""
        return min(1.0, self.value + self.margin)

    def _whole(self, share: float) -> int:
        count, low, high = whole(self.value * self.size, share * self.size)
        return min(self.size, max(count - low, high - count))


def whole(reading: float, margin: float) -> tuple[int, int, int]:
    """The whole number next to a reading, and the least and the greatest whole number within a margin of the reading.

    What is counted is a whole number, so if it is within the margin of the reading, it is one of these. Both ends are
    at most margin + ½ from the number that is shown: rounding never makes a whole margin wider.

    >>> whole(10.4, 150.0), whole(10.6, 150.0)
    ((10, -139, 160), (11, -139, 160))
    """
    nearest = round(reading)
    least, greatest = math.ceil(reading - margin - _DUST), math.floor(reading + margin + _DUST)
    return nearest, min(nearest, least), max(nearest, greatest)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval that it lies in with 95%, by itself: everything in it is public.

    >>> Estimate(25.5, 24.0, 28.0).margin
    2.5
    """

    value: float | None
    """The estimate; None where too little is known to name one."""
    low: float
    high: float
    """The interval. It holds the truth with 95%, for this number alone, if the question was chosen without looking at
    the noise that it uses."""
    error: float | None = None
    """A bound on |value − truth|. With probability at least 1 − beta, all of a mechanism's answers keep theirs. None
    where none is stated."""
    reading: float | None = field(default=None, compare=False, repr=False)
    """The truth plus noise: ``value`` before it was rounded, and held within what is possible. Sums and differences
    are worked out from readings, whose noise has the mean 0; None where it is the same as ``value``."""
    tail: Tail = field(default="log-concave", compare=False, repr=False)
    """What is known of the noise of the reading."""

    @property
    def raw(self) -> float | None:
        """The number to work with: the reading."""
        return self.value if self.reading is None else self.reading

    def within(self, least: float, most: float) -> Estimate:
        """The estimate of a number that lies between ``least`` and ``most``: what is nearest is no further from it.

        >>> Estimate(-48.0, -60.0, -36.0).within(0.0, 500.0)
        Estimate(value=0.0, low=0.0, high=12.0, error=None)
        """
        if self.value is None:
            return replace(self, low=max(self.low, least), high=min(self.high, most))
        value, margin = min(most, max(least, self.value)), self.margin or 0.0
        below, above = (margin, margin) if value != self.value else (self.value - self.low, self.high - self.value)
        return replace(self, value=value, low=max(least, value - below), high=min(most, value + above))

    @property
    def margin(self) -> float | None:
        """The half-width that holds the interval: what a person means by ±."""
        return None if self.value is None else max(self.value - self.low, self.high - self.value)

    def to_dict(self) -> dict[str, float | None]:
        """A plain form for JSON: None for what is unknown, or unbounded."""
        plain = {"value": self.value, "margin": self.margin, "error": self.error, "low": self.low, "high": self.high}
        return {name: None if value is None or math.isinf(value) else value for name, value in plain.items()}


class Price(NamedTuple):
    """What a batch of queries could cost: public."""

    mechanism: str
    """The name of the mechanism that would answer."""
    most: float
    """The most that the batch could cost, in the promise's unit."""
    remaining: float
    """What the mechanism has left to spend on all rows, in the same unit. (Newer rows may have more left.)"""
    unit: str
    """The promise's unit: "epsilon" or "rho"."""
    enough: bool
    """Whether what is left is sure to pay for the whole batch. If not, it may be refused after some answers."""
    exact: bool
    """Whether asking costs just this much, but for rounding; otherwise this or less."""


@dataclass(slots=True)
class Bill:
    """What one question may cost, and what it has cost: public.

    The vault fills it in while nobody else asks, also if the question fails after some answers.
    """

    most: float = math.inf
    """The most that the question may cost, in the promise's unit. If it could cost more, it raises `Dearer`, and
    nothing is charged."""
    cost: float = 0.0
    """What it has cost those rows that paid most."""
    remaining: float = math.nan
    """What was left of the whole promise then."""
    settled: bool = False
    """Whether everything to come is free: see `Vault.settled`."""
    unit: str = ""
    """The promise's unit: "epsilon" or "rho"."""

    def words(self) -> str:
        """What was charged, for an error's reader.

        >>> Bill(cost=0.0125, unit="rho").words()
        'Charged: rho 0.0125. What was released for it is known: asking again is free until rows come.'
        """
        return (
            f"Charged: {self.unit} {readable(self.cost)}. What was released for it is known: asking again is free "
            "until rows come."
        )

    def charge(self, error: BaseException) -> None:
        """Put the bill on an error that came after a charge: as its ``bill``, and in its words."""
        if self.cost > 0 and getattr(error, "bill", None) is None:
            vars(error)["bill"] = self
            error.add_note(self.words())

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Errors within the block come after the charge: each has the bill."""
        try:
            yield
        except Exception as error:
            self.charge(error)
            raise


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A mechanism's guarantee when the database has ``size`` rows.

    Privacy: (epsilon, delta), for databases that differ in one row, replaced; it covers the mechanism's whole life.
    Accuracy: ``statement`` holds with error at most ``alpha``, a share of the rows, for all answers together, with
    probability at least 1 − ``beta``.
    """

    epsilon: float
    delta: float
    alpha: float
    beta: float
    size: int
    statement: str

    def _repr_html_(self) -> str:
        """The guarantee in a notebook, in words."""
        return (
            f"<div><b>epsilon {self.epsilon:g}, delta {self.delta:g}</b>, for ever; alpha {self.alpha:.4g} at "
            f"{counted(self.size, 'row')}, but with probability {self.beta:g}<br>"
            f"<small>{escape(self.statement)}</small></div>"
        )
