"""The notes and the public state of PMWG's tight profile (``mechanisms/tight.py``).

The profile writes *notes* into the gate's journal and folds them, with the gate's other events, into its public state:
`TightState`, the histogram, and `Records` of released measurements, by which a query asked again costs nothing while
its measurement is still accurate enough. A `Summary` note holds all of this state.
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
    """NOTE: `Learned` and `Kept` in one, for a hard query: ``step`` moves the histogram along this query, and ``share``
    is its numeric answer."""

    step: Step
    change: float
    share: float


@dataclass(frozen=True, slots=True)
class Judged:
    """NOTE: the last measurement found that the histogram's answer was not ``good``. (Noted, not recomputed on replay,
    because the last bits of a histogram's answer may differ after a restart. Earlier versions noted good ones too.)"""

    good: bool


@dataclass(frozen=True, slots=True)
class Doubted:
    """NOTE: a hard query's answer contradicts the earlier ones: the event of probability beta has happened."""


@dataclass(frozen=True, slots=True)
class Kept:
    """NOTE: the numeric answer to a hard query, kept as a record. (Written alone if the histogram could not learn from
    the answer; earlier versions wrote it for every hard query.)"""

    query: Query
    share: float


@dataclass(frozen=True, slots=True)
class RunState:
    """The sparse-vector run in progress: ``handle`` is the gate's, ``number`` counts runs from 1."""

    handle: int
    number: int
    scales: RunScales


@dataclass(slots=True)
class TightState:
    """The public state without the histogram and the records: a fold over the gate's history. (Not frozen: a copy for
    each event took as long as drawing its noise.)"""

    potential: float
    """Φ ≥ RE(truth‖histogram), unless an event of probability beta has happened."""
    size: int = 0
    asked: int = 0
    """Queries compared in a run or measured: those that consumed noise."""
    hard: int = 0
    runs: int = 0
    run: RunState | None = None
    measured: float = 0.0
    """What measurements have cost, in the budget's unit. (The promise rests on the kernel's exact sum, not on this.)"""
    streak: int = 0
    """Measurements in a row that found the histogram good."""
    patience: int = 1
    """How many times its cost a run must be expected to save before it is begun: doubled by each halt of a run."""
    doubts: int = 0
    """Hard queries whose answers contradict the earlier ones: if there is one, the event of probability beta has
    happened."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """NOTE: the whole public state, in place of the events that led to it."""

    start: int
    """The size of the database at the first query; the plan was made for this size."""
    state: TightState
    histogram: KeptHistogram
    records: KeptRecords

    def unloaded(self) -> tuple[Summary, tuple[bytes, ...]]:
        """This summary without its arrays, and the bytes of the arrays: histogram (empty if it is still uniform),
        records, complements."""
        vector, records = self.histogram.vector, self.records
        arrays = _NOTHING if vector is None else vector.astype("<f8"), records.records, records.complements
        return self._with(None, KeptRecords(_NOTHING, _NOTHING)), tuple(array.tobytes() for array in arrays)

    def loaded(self, arrays: Sequence[bytes]) -> Summary:
        """This summary with the arrays whose bytes `unloaded` returned."""
        vector, records, complements = (np.frombuffer(each, np.uint8) for each in arrays)
        return self._with(vector.view("<f8") if len(vector) else None, KeptRecords(records, complements))

    def _with(self, vector: Floats | None, records: KeptRecords) -> Summary:
        return replace(self, histogram=replace(self.histogram, vector=vector), records=records)


# -- records of released measurements ----------------------------------------------------------------------------------


MOST_RECORDS: Final = 100_000
"""At this number, records that no longer hold are dropped, and of the others all but the latest 50,000."""


class Measurement(NamedTuple):
    """A released measurement: ``share`` is within ``error`` of the truth at ``size`` rows."""

    share: float
    error: float
    size: int

    def at(self, size: int) -> tuple[float, float]:
        """The share and its error at a later size. Half of the new rows are assumed to match, which halves the error
        that they add."""
        old = self.size / size
        return old * self.share + (1 - old) / 2, aged_bound(self.error, old, centred=True)


@dataclass(frozen=True, slots=True, eq=False)
class KeptRecords:
    """Records as bytes, oldest first: there can be 100,000 of them."""

    records: Bytes
    """For each record its query's digest, share, error and size."""
    complements: Bytes
    """Pairs of digests: a complement, and its query on record."""


_RECORD: Final = np.dtype([("digest", "V32"), ("share", "<f8"), ("error", "<f8"), ("size", "<i8")])
_PAIR: Final = np.dtype([("complement", "V32"), ("query", "V32")])


class Records:
    """The latest measurement of each query of one schema; it also answers the query's complement.

    Records are indexed by the query's digest, so the queries themselves need not be stored, nor parsed on a restart.
    A record *holds* while its error, aged to the present size, is at most ``alpha``.
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._records: dict[bytes, Measurement] = {}
        # Complement → query on record, for complements that are conjunctions: computing one takes longer than an easy
        # answer.
        self._complements: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._records)

    def best(self, query: Query, size: int) -> tuple[float, float]:
        """The share of a query at this size by its record, and its error (infinite if there is no record)."""
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
        """The records that still hold at this size. (Errors only grow, so the others never will again.)"""
        kept = self._standing(size)
        records = np.empty(len(kept), dtype=_RECORD)
        records["digest"] = np.frombuffer(b"".join(kept), dtype="V32")
        records["share"] = [record.share for record in kept.values()]
        records["error"] = [record.error for record in kept.values()]
        records["size"] = [record.size for record in kept.values()]
        pairs = b"".join([complement + query for complement, query in self._complements.items() if query in kept])
        return KeptRecords(records.view(np.uint8), np.frombuffer(pairs, np.uint8))

    def restore(self, kept: KeptRecords) -> None:
        """Add the records that `standing` returned before a restart."""
        columns = kept.records.view(_RECORD)
        digests, *fields = (columns[name].tolist() for name in ("digest", "share", "error", "size"))
        self._records.update(zip(digests, map(Measurement._make, zip(*fields, strict=True)), strict=True))
        self._complements.update(kept.complements.view(_PAIR).tolist())

    def keep(self, query: Query, record: Measurement) -> None:
        """Store a measurement of a query; it replaces an earlier one."""
        if len(self._records) >= MOST_RECORDS:
            self._prune(record.size)
        # The complement of a conjunction over several attributes is a table: `_complement` computes its complement when
        # it is asked. The complement of a set of one attribute is never too wide to be computed here.
        if query.digest not in self._records and (query.masks is None or len(query.attributes) == 1):
            complement = ~query
            if complement.masks is not None:
                self._complements[complement.digest] = query.digest
        self._records[query.digest] = record

    def _complement(self, query: Query) -> bytes | None:
        """The digest of the query's complement, if that can be on record."""
        return (~query).digest if query.masks is None else self._complements.get(query.digest)

    def _standing(self, size: int) -> dict[bytes, Measurement]:
        return {digest: record for digest, record in self._records.items() if record.at(size)[1] <= self._alpha}

    def _prune(self, size: int) -> None:
        self._records = dict(list(self._standing(size).items())[-(MOST_RECORDS // 2) :])
        self._complements = {query: other for query, other in self._complements.items() if other in self._records}
