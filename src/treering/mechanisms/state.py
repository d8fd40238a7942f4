"""What the tight profile of PMWG writes down, and the public state that it folds from that.

Released measurements, kept so that a question asked twice is paid for once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from treering.arrays import Bytes, Floats
from treering.domain.query import Query
from treering.mechanisms.histogram.hypothesis import KeptHistogram
from treering.mechanisms.histogram.step import Step
from treering.theory.ageing import aged_bound
from treering.theory.sparse import RunScales

_NOTHING: Final = np.empty(0, np.uint8)


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

    def unloaded(self) -> tuple[Summary, tuple[bytes, ...]]:
        """The same without its arrays, and their bytes: histogram (none if it is still uniform), records,
        complements."""
        vector, records = self.histogram.vector, self.records
        arrays = _NOTHING if vector is None else vector.astype("<f8"), records.records, records.complements
        return self._with(None, KeptRecords(_NOTHING, _NOTHING)), tuple(array.tobytes() for array in arrays)

    def loaded(self, arrays: Sequence[bytes]) -> Summary:
        """The same with the arrays whose bytes `unloaded` gave."""
        vector, records, complements = (np.frombuffer(each, np.uint8) for each in arrays)
        return self._with(vector.view("<f8") if len(vector) else None, KeptRecords(records, complements))

    def _with(self, vector: Floats | None, records: KeptRecords) -> Summary:
        return replace(self, histogram=replace(self.histogram, vector=vector), records=records)


# -- records -----------------------------------------------------------------------------------------------------------


MOST_RECORDS: Final = 100_000
"""When there are so many, those that no longer hold are dropped, and then the oldest half."""


class Measurement(NamedTuple):
    """A released measurement: ``share`` is within ``error`` of the truth at ``size`` rows."""

    share: float
    error: float
    size: int

    def at(self, size: int) -> tuple[float, float]:
        """The best share and its error at a later size: new rows match or not, so half of them is the best guess."""
        old = self.size / size
        return old * self.share + (1 - old) / 2, aged_bound(self.error, old, centred=True)


@dataclass(frozen=True, slots=True, eq=False)
class KeptRecords:
    """Records as bytes, oldest first: there can be 100,000 of them."""

    records: Bytes
    """For each one its query's digest, share, error and size."""
    complements: Bytes
    """Pairs of digests: a complement, and its query on record."""


_RECORD: Final = np.dtype([("digest", "V32"), ("share", "<f8"), ("error", "<f8"), ("size", "<i8")])
_PAIR: Final = np.dtype([("complement", "V32"), ("query", "V32")])


class Records:
    """The latest measurement of each query (of one schema). That of a query is one of its complement, too.

    Queries are known by their digests: those on record need not be kept, nor made again when a life is taken up.
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._records: dict[bytes, Measurement] = {}
        # Conjunctions that are the complement of a query on record: making one takes longer than an easy answer.
        self._complements: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._records)

    def best(self, query: Query, size: int) -> tuple[float, float]:
        """What is known of a query at this size: a share and its error (infinite if nothing is known)."""
        record = self._records.get(query.digest)
        if record is not None:
            return record.at(size)
        complement = self._complement(query)
        record = None if complement is None else self._records.get(complement)
        if record is None:
            return 0.5, math.inf
        share, error = record.at(size)
        return 1 - share, error

    def standing(self, size: int) -> KeptRecords:
        """Those that still hold at this size. (One that does not hold will never again.)"""
        kept = self._standing(size)
        records = np.empty(len(kept), dtype=_RECORD)
        records["digest"] = np.frombuffer(b"".join(kept), dtype="V32")
        records["share"] = [record.share for record in kept.values()]
        records["error"] = [record.error for record in kept.values()]
        records["size"] = [record.size for record in kept.values()]
        pairs = b"".join([complement + query for complement, query in self._complements.items() if query in kept])
        return KeptRecords(records.view(np.uint8), np.frombuffer(pairs, np.uint8))

    def restore(self, kept: KeptRecords) -> None:
        """Take up the records of an earlier life."""
        columns = kept.records.view(_RECORD)
        digests, *fields = (columns[name].tolist() for name in ("digest", "share", "error", "size"))
        self._records.update(zip(digests, map(Measurement._make, zip(*fields, strict=True)), strict=True))
        self._complements.update(kept.complements.view(_PAIR).tolist())

    def keep(self, query: Query, record: Measurement) -> None:
        """Remember a measurement; a later one replaces it."""
        if len(self._records) >= MOST_RECORDS:
            self._prune(record.size)
        # The complement of several sets is a table, which `_complement` makes when asked; that of one never too wide.
        if query.digest not in self._records and (query.masks is None or len(query.attributes) == 1):
            complement = ~query
            if complement.masks is not None:
                self._complements[complement.digest] = query.digest
        self._records[query.digest] = record

    def _complement(self, query: Query) -> bytes | None:
        """The complement, if it can be among the records."""
        return (~query).digest if query.masks is None else self._complements.get(query.digest)

    def _standing(self, size: int) -> dict[bytes, Measurement]:
        return {digest: record for digest, record in self._records.items() if record.at(size)[1] <= self._alpha}

    def _prune(self, size: int) -> None:
        self._records = dict(list(self._standing(size).items())[-(MOST_RECORDS // 2) :])
        self._complements = {query: other for query, other in self._complements.items() if other in self._records}
