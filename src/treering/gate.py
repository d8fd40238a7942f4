"""PUBLIC: what goes through the gate between public programs and private data: requests, and events.

A mechanism talks to a `Gate` (``protocols.py``). What it asks for is a request with noise scales; what it gets back is
an *event*: a frozen record of what was released. A journal keeps the same events, so a mechanism's public state is a
fold over `Gate.history`, and replaying the journal gives exactly the live state.

In every event ``size`` is the number of rows at the time, and ``cost`` what the event was charged.

Units: a query of weight scale W is compared and answered in units of 1/W rows ("grid units"), always integers.
Noise scales are in rows; the kernel multiplies them by W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from treering.arrays import Ints
from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.budget.rows import Charge, Steps
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.query import Query
from treering.domain.sums import Kept, Sums
from treering.noise import Noise
from treering.params import positive

if TYPE_CHECKING:  # Of learning, only who learns loads more than these names.
    from treering.domain.problem import Method, Problem
    from treering.domain.tally import Tally

FINE: Final = 2**16
"""Comparisons with a ``reach`` (`Gate.first_exceeding`) are made on a grid this many times as fine as the query's."""

# -- requests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A sparse-vector run: its noise, fixed for as long as it lives.

    ``threshold_scale``  scale, in rows, of the Laplace noise on the threshold, drawn once
    ``query_scale``      scale, in rows, of the fresh Laplace noise of each comparison
    ``answer``           noise of the numeric answer to the query that ends the run; None: no such answer
    """

    threshold_scale: float
    query_scale: float
    answer: Noise | None = None

    def __post_init__(self) -> None:
        positive(self.threshold_scale, "threshold_scale")
        positive(self.query_scale, "query_scale")


@dataclass(frozen=True, slots=True)
class Discovery:
    """A request for the values of one column that are not ``listed``, and that enough rows have: of the rows after
    position ``rows[0]``, up to ``rows[1]``.

    ``scale`` is the scale of the Gaussian noise on each count, in rows. A value that a single row has is told with
    probability at most ``failure``.
    """

    scalar: Scalar
    listed: tuple[Any, ...]
    rows: tuple[int, int]
    scale: float
    failure: Fraction


@dataclass(frozen=True, slots=True)
class Span:
    """The rows ``start`` + 1 to ``end``, each counted ``weight`` times."""

    start: int
    end: int
    weight: int


@dataclass(frozen=True, slots=True)
class Ones:
    """Weight 1 for each of the last ``leaves`` leaves."""

    leaves: int


@dataclass(frozen=True, slots=True)
class Root:
    """For the last ``leaves`` leaves, the newest first, `Weights.ROOT` of ``budget/weights.py``: the square root."""

    leaves: int


@dataclass(frozen=True, slots=True)
class Fading:
    """The same with `Weights.FADING`, which fall faster."""

    leaves: int


Pattern: TypeAlias = Ones | Root | Fading
"""Weights for the last leaves of a segment, by a short name: written out, they would be as many as the leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class Coming:
    """A leaf that is to come: the rows after position ``start``, in each of some groups."""

    groups: Groups
    start: int
    sums: Kept | None = None
    segment: int | None = None
    """The segment in progress that it belongs to; None for the first leaf of one that is to begin."""


Told: TypeAlias = Callable[[int, int], None]
"""A callback for long operations: how many steps are done, and how many there are. Both are public, as the number of
steps is fixed beforehand. What it raises is dropped."""


# -- events: what was released -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """``values``: each query's count plus ``noise``, in grid units."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    noise: Noise
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Sparse-vector run number ``run`` began: its whole cost, the numeric answer included, is charged."""

    size: int
    cost: Cost
    run: int
    request: RunRequest


@dataclass(frozen=True, slots=True)
class Crossing:
    """The first query of a batch above the noisy threshold, and its noisy answer in grid units (None without one)."""

    index: int
    value: int | None


@dataclass(frozen=True, slots=True)
class Compared:
    """``asked`` queries were compared: all were below the noisy threshold, except the last if there is a crossing,
    which ends the run."""

    size: int
    run: int
    asked: int
    crossing: Crossing | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run was abandoned at a public moment: ``refund`` is what it was charged for and can no longer release, in the
    budget's unit."""

    size: int
    run: int
    refund: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class HistogramReleased:
    """Noisy counts, in rows, over the joint values of ``attributes`` (positions in the schema)."""

    size: int
    cost: Cost
    attributes: tuple[int, ...]
    noise: Noise
    counts: Ints


@dataclass(frozen=True, slots=True)
class Selected:
    """The exponential mechanism drew ``queries[index]``."""

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    index: int


@dataclass(frozen=True, slots=True)
class RowsDrawn:
    """A synthetic database of ``rows`` rows that the exponential mechanism drew, as cells, increasing.

    Only the queries' values on it mean anything: among cells that no query tells apart, the first stands for all.
    """

    size: int
    cost: Cost
    queries: tuple[Query, ...]
    rows: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForeignReleased:
    """The output of another library's measurement of the counts: a value for each cell, or no values if it failed."""

    size: int
    cost: Cost
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """``values``: for each group, the sum over the ``spans`` of weight × the group's rows in the span, plus ``noise``.

    Each span is charged for its own weight; ``cost`` is the largest of these charges.
    """

    size: int
    cost: Cost
    groups: Groups
    spans: tuple[Span, ...]
    noise: Noise
    values: Ints
    sums: Sums | None = None
    """If there are any, the values are those that `Sums` says; otherwise counts of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentBegun:
    """A segment began: leaves of rows after position ``start``, which are released in combinations of integer weights,
    each with fresh ``noise``. The squared weights of each leaf (under a pure budget, their absolute values) sum to at
    most ``room`` over all releases."""

    size: int
    segment: int
    series: int
    """A number that the caller gives to all segments of one series."""
    start: int
    groups: Groups
    noise: Noise
    room: int
    sums: Kept | None = None
    """If there are any, a release has the numbers that `Sums` or `Capped` says; otherwise counts of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Advanced:
    """The rows of a segment since its last leaf, up to ``size``, are leaf number ``leaf`` and were charged for the
    whole room: ``cost`` each. ``values``: for each pattern, the weighted counts of the groups plus noise."""

    size: int
    cost: Cost
    segment: int
    leaf: int
    patterns: tuple[Pattern, ...]
    values: tuple[Ints, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentCondensed:
    """A note replaces the releases of a segment so far. ``edges`` are the sizes at which its leaves begin and end, and
    ``drawn`` is how much of the room each leaf has used."""

    size: int
    segment: int
    edges: Ints
    drawn: Ints
    note: Any


@dataclass(frozen=True, slots=True)
class SegmentEnded:
    """A segment is over. Room that was not used was given back: ``charges`` are what its rows have paid in the end. The
    note stands for all its releases."""

    size: int
    segment: int
    series: int
    charges: tuple[Charge, ...]
    note: Any


@dataclass(frozen=True, slots=True)
class Marked:
    """From now on, rows up to ``size`` and rows after it can be told apart."""

    size: int


@dataclass(frozen=True, slots=True)
class PersonsCounted:
    """How many persons have rows, now that there are ``size`` rows: public."""

    size: int
    persons: int


@dataclass(frozen=True, slots=True)
class Minimised:
    """A model ``theta`` in the ball whose empirical risk is near the minimum: `treering.theory.erm` bounds how near.

    ``rows`` are the rows that it was made from, and that were charged: those after position ``rows[0]``, up to
    ``rows[1]``. None: all rows that there were.
    """

    size: int
    cost: Cost
    problem: Problem
    method: Method
    theta: tuple[float, ...]
    rows: tuple[int, int] | None = None
    held: int | None = None
    """How many of the rows, drawn at random, were held out, if any: they were not learnt from (see `Gate.tally`)."""

    @property
    def entries(self) -> int:
        """How many rows the model was made from."""
        return self.size if self.rows is None else self.rows[1] - self.rows[0] - (self.held or 0)


@dataclass(frozen=True, slots=True, eq=False)
class Tallied:
    """``values``: how many of the rows that the last `Minimised` held out are in each group of the ``tally``, plus
    ``noise``. ``drawn`` was taken from their room: they were charged with the model."""

    size: int
    drawn: Cost
    tally: Tally
    noise: Noise
    values: Ints


@dataclass(frozen=True, slots=True)
class Discovered:
    """The values that were asked for and that enough rows have, increasing, each with its count plus noise."""

    size: int
    cost: Cost
    request: Discovery
    found: tuple[tuple[Any, int], ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A part of the budget was set aside and charged: operations up to `ReservationEnded` are paid from it."""

    size: int
    cost: Cost
    part: Budget


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """Operations are paid from the whole budget again. What was left of the part stays spent."""

    size: int


@dataclass(frozen=True, slots=True, eq=False)
class OpenSegment:
    """A segment in progress, in a condensed record: as `SegmentCondensed` says."""

    begun: SegmentBegun
    edges: Ints
    drawn: Ints


@dataclass(frozen=True, slots=True)
class Condensed:
    """A note replaces all events so far, which cost ``spent``: replay begins with it. ``runs`` are in progress."""

    size: int
    spent: Fraction
    next_run: int
    runs: tuple[RunStarted, ...]
    note: Any
    steps: Steps
    """What the events cost each row, without the runs in progress."""
    next_segment: int = 0
    segments: tuple[OpenSegment, ...] = ()
    """The segments in progress."""
    marks: tuple[int, ...] = ()
    """The sizes at which rows can be told apart (see `Gate.mark`)."""
    failures: Steps | None = None
    """The chances of failure that each row was charged."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A public step of the mechanism itself, recorded so that replay need not recompute it."""

    note: Any


Event: TypeAlias = (
    Measured
    | RunStarted
    | Compared
    | RunEnded
    | HistogramReleased
    | Selected
    | RowsDrawn
    | ForeignReleased
    | Combined
    | SegmentBegun
    | Advanced
    | SegmentCondensed
    | SegmentEnded
    | Marked
    | PersonsCounted
    | Minimised
    | Tallied
    | Discovered
    | Reserved
    | ReservationEnded
    | Condensed
    | Noted
)
