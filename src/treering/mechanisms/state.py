"""What the tight profile of PMWG writes down, and the public state that it folds from that."""

from __future__ import annotations

from dataclasses import dataclass

from treering.domain.query import Query
from treering.mechanisms.histogram.hypothesis import KeptHistogram
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.records import KeptRecords
from treering.theory.sparse import RunScales


@dataclass(frozen=True, slots=True)
class Grown:
    """NOTE: the histogram was brought to a larger size."""

    size: int


@dataclass(frozen=True, slots=True)
class Learned:
    """NOTE: the histogram took a step, and the potential moved by ``change``."""

    step: Step
    change: float


@dataclass(frozen=True, slots=True)
class Corrected:
    """NOTE: both `Learned` and `Kept`, by a hard query: the step is about it, ``share`` is its numeric answer."""

    step: Step
    change: float
    share: float


@dataclass(frozen=True, slots=True)
class Judged:
    """NOTE: the measurement just made found the histogram bad. (A note, for an answer's last bits may differ after a
    restart. Earlier versions noted the good ones as well.)"""

    good: bool


@dataclass(frozen=True, slots=True)
class Doubted:
    """NOTE: a hard answer that cannot be, given all earlier ones: the event of probability beta has happened."""


@dataclass(frozen=True, slots=True)
class Kept:
    """NOTE: the numeric answer to a hard query, kept for later. (By itself if the histogram could not learn from it;
    earlier versions noted every one.)"""

    query: Query
    share: float


@dataclass(frozen=True, slots=True)
class RunState:
    """The run in progress."""

    handle: int
    number: int
    scales: RunScales


@dataclass(slots=True)
class TightState:
    """The public state, but for the histogram and the records: a fold over the gate's history. (Not frozen: a copy for
    each event took as long as its noise.)"""

    potential: float
    """Φ ≥ RE(truth‖histogram), unless an event of probability beta has happened."""
    size: int = 0
    asked: int = 0
    """Queries that met noise."""
    hard: int = 0
    runs: int = 0
    run: RunState | None = None
    measured: float = 0.0
    """What measuring has cost, in the budget's unit. (The promise rests on the kernel's exact sum, not on this one.)"""
    streak: int = 0
    """Measurements in a row that found the histogram good."""
    patience: int = 1
    """How many times over a run must promise to pay for itself: doubled by each halt."""
    doubts: int = 0
    """Hard answers that cannot be, given the earlier ones: unless this is 0 the event of probability beta has
    happened."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """NOTE: all of the public state, in place of the events that led to it."""

    start: int
    """The size of the database at the first question, which the plan was made for."""
    state: TightState
    histogram: KeptHistogram
    records: KeptRecords
