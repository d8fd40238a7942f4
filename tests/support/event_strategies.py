"""Hypothesis strategies for every event of the gate, and for what is inside of them."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from support.schemas import conjunctions, queries, weighted_queries
from treering import gate
from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.budget.rows import Charge, Steps
from treering.domain.axis import Axis, Kind, Scalar
from treering.domain.groups import Groups
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Squared
from treering.domain.problem import Descent, Net, NoisyMoments, Perturbation, Problem
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.sums import Capped, Grid, Sums
from treering.domain.tally import Tally
from treering.gate import Discovery
from treering.mechanisms.histogram.hypothesis import KeptHistogram
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.paper import Over, Updated
from treering.mechanisms.series.ring import Opened
from treering.mechanisms.series.root import Finished, Tail
from treering.mechanisms.series.tree import Estimates, Piece
from treering.mechanisms.state import (
    Corrected,
    Doubted,
    Grown,
    Judged,
    Kept,
    KeptRecords,
    Learned,
    RunState,
    Summary,
    TightState,
)
from treering.noise import Gaussian, Laplace
from treering.schedulers.epochs import EpochBegan, EpochFailed, EpochOpened
from treering.theory.sparse import RunScales

DTYPES = ("bool", "<i1", "<u2", "<i4", ">i4", "<i8", ">u8", "<f2", "<f4", "<f8", ">f8", "<c16")

bits = st.integers(0, 2**64 - 1).map(lambda word: float(struct.unpack("<d", struct.pack("<Q", word))[0]))
floats = st.floats() | bits | st.sampled_from([0.0, -0.0, 0.1, 1e16, 5e-324])
"""Every bit pattern there is, NaN with their payloads."""
integers = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**5000, -(2**14000), 2**4096, 2**4096 - 1])
sizes = st.integers(0, 10**15)
fractions = st.fractions() | st.integers(1, 2**5000).map(lambda below: Fraction(1, below))
texts = st.text()
scales = st.floats(1e-300, 1e300)
noises = st.builds(Laplace, scales) | st.builds(Gaussian, scales)
costs = st.builds(Cost, st.none() | st.fractions(0), st.fractions(0))
budgets = st.builds(Budget, st.sampled_from(["pure", "zcdp"]), st.fractions(Fraction(1, 10**9)))
models = st.lists(floats, max_size=5).map(tuple)
starts = st.none() | models
listed = texts | st.booleans() | st.integers(-(2**63), 2**63 - 1)
discoveries = st.builds(
    Discovery,
    st.builds(Scalar, texts, st.sampled_from(["text", "code"])),
    st.lists(listed, max_size=3).map(tuple),
    st.tuples(sizes, sizes),
    scales,
    fractions,
)
powers = st.integers(0, 30).map(lambda power: 2**power)
losses = st.sampled_from([Logistic(), HuberHinge(), HuberHinge(0.1), Squared(), Distance(), HuberDistance(0.25)])
problems = st.builds(Problem, losses, st.integers(1, 4096), st.floats(0.01, 256), st.just(0.0) | st.floats(1e-9, 9))
steps = st.integers(1, 2**20)
methods = (
    st.builds(
        Perturbation,
        st.sampled_from(["laplace", "gaussian"]),
        scales,
        st.integers(0, 60).map(lambda power: 2.0**-power),
        steps,
        st.just(0.0) | scales,
        starts,
    )
    | st.builds(Descent, st.sampled_from(["averaged", "accelerated", "strong"]), steps, scales, scales, starts, powers)
    | st.builds(Net, scales, scales, powers, st.integers(1, 5))
    | st.builds(NoisyMoments, scales, st.just(0.0) | scales, starts)
)


@st.composite
def arrays(draw: st.DrawFn, dtype: str | None = None, most: int = 3) -> npt.NDArray[Any]:
    """An array of any bits, in C or Fortran order."""
    kind = np.dtype(draw(st.sampled_from(DTYPES)) if dtype is None else dtype)
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=most)))
    count = int(np.prod(shape))
    if kind == np.bool_:
        array = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=kind)
    else:
        data = draw(st.binary(min_size=count * kind.itemsize, max_size=count * kind.itemsize))
        array = np.frombuffer(data, dtype=kind)
    array = array.reshape(shape).copy(order=draw(st.sampled_from(["C", "F"])))
    array.setflags(write=False)
    return array


counts = arrays("<i8")
cells = arrays("<f8", 1)


@st.composite
def _axes(draw: st.DrawFn) -> Axis:
    """An axis about a scalar of any kind."""
    kinds: list[Kind] = ["text", "boolean", "code", "integer", "number", "moment"]
    kind = draw(st.sampled_from(kinds))
    zone = draw(st.none() | st.just("Europe/Paris"))
    part = "hour" if kind == "integer" and draw(st.booleans()) else None
    values: dict[str, st.SearchStrategy[Any]] = {
        "text": st.text(max_size=3),
        "boolean": st.booleans(),
        "number": st.floats(-(2.0**60), 2.0**60),
    }
    drawn: list[Any] = sorted(draw(st.sets(values.get(kind, st.integers(-(2**63), 2**63 - 1)), max_size=80)))
    by_list = kind in ("text", "boolean", "code")
    listed = tuple(drawn) if by_list else ()
    cuts = np.array([] if by_list else drawn, dtype="<f8" if kind == "number" else "<i8")
    pieces = len(drawn) + 3
    classes = np.array(draw(st.lists(st.integers(0, 5), min_size=pieces, max_size=pieces)), dtype=np.int64)
    return Axis(Scalar(draw(st.text(max_size=5)), kind, zone, part), cuts, listed, classes)


groups = st.builds(Groups, st.lists(_axes(), max_size=3).map(tuple), st.none() | counts)
spans = st.builds(gate.Span, sizes, sizes, integers)
patterns = st.builds(gate.Ones, sizes) | st.builds(gate.Root, sizes) | st.builds(gate.Fading, sizes)
charges = st.lists(st.builds(Charge, sizes, sizes, fractions), max_size=3).map(tuple)
ladders = st.lists(st.tuples(sizes, fractions), max_size=3).map(tuple)
scalars = _axes().map(lambda axis: axis.scalar)
grids = st.builds(Grid, st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False), sizes)
sums = st.none() | st.builds(Sums, scalars, grids, st.booleans(), st.booleans())
capped = st.builds(Capped, sizes, sizes, sizes, fractions, sums)
begun = st.builds(gate.SegmentBegun, sizes, sizes, sizes, sizes, groups, noises, sizes, sums | capped)
open_segments = st.builds(gate.OpenSegment, begun, counts, counts)


def some(schema: Schema) -> st.SearchStrategy[Query]:
    """Any query."""
    return conjunctions(schema) | queries(schema) | weighted_queries(schema)


@st.composite
def steps_of(draw: st.DrawFn, schema: Schema) -> Step:
    """A step: two factors for a counting query, any number for another."""
    query = draw(some(schema))
    size = 2 if query.counting else draw(st.integers(0, 4))
    factors = draw(st.lists(st.floats(0, exclude_max=False, allow_infinity=False), min_size=size, max_size=size))
    return Step(query, tuple(factors), draw(floats), draw(floats))


def run_started() -> st.SearchStrategy[gate.RunStarted]:
    """The start of a run."""
    request = st.builds(gate.RunRequest, scales, scales, st.none() | noises)
    return st.builds(gate.RunStarted, sizes, costs, sizes, request)


def summaries() -> st.SearchStrategy[Summary]:
    """All of PMWG's state."""
    runs = st.builds(RunState, sizes, sizes, st.builds(RunScales, floats, floats, st.none() | floats))
    states = st.builds(TightState, floats, sizes, sizes, sizes, sizes, st.none() | runs, floats, sizes, sizes, integers)
    histograms = st.builds(KeptHistogram, st.none() | cells, floats, floats, floats, sizes)
    packed = st.binary(max_size=200).map(lambda data: np.frombuffer(data, np.uint8))
    records = st.builds(KeptRecords, packed, packed)
    return st.builds(Summary, sizes, states, histograms, records)


tallies = st.builds(
    Tally,
    st.just((0.25, -0.5)),
    st.sampled_from(["margins", "scores", "misses", "distances"]),
    st.sampled_from([(0.0,), (-0.5, 0.1, 2.0)]),
)


def notes(schema: Schema) -> st.SearchStrategy[Any]:
    """What mechanisms note, and plain values of any shape, which somebody's box may."""
    stepped = steps_of(schema)
    pieces = st.dictionaries(st.tuples(sizes, sizes), st.builds(Piece, sizes, sizes, cells), max_size=3)
    ours = (
        st.builds(Grown, sizes)
        | st.builds(Learned, stepped, floats)
        | st.builds(Corrected, stepped, floats, floats)
        | st.builds(Judged, st.booleans())
        | st.builds(Doubted)
        | st.builds(Kept, some(schema), floats)
        | summaries()
        | st.builds(Updated, stepped)
        | st.builds(Over)
        | st.builds(Estimates, st.tuples(sizes, sizes), pieces, st.none() | cells)
        | st.builds(Finished, sizes, sizes, st.lists(st.builds(Tail, sizes, cells, floats), max_size=3).map(tuple))
        | st.builds(EpochBegan, sizes, sizes, sizes, floats, floats)
        | st.builds(EpochOpened, sizes)
        | st.builds(Opened, sizes, groups, fractions, st.just(()), sums)
        | st.builds(EpochFailed, sizes, texts)
    )
    leaves = (
        st.none() | st.booleans() | integers | floats | texts | fractions | some(schema) | arrays() | noises | costs
    )
    keys = st.none() | st.booleans() | st.integers() | texts | st.tuples(st.integers(), texts)
    plain = st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=6,
    )
    return ours | plain


def events(schema: Schema) -> dict[type[Any], st.SearchStrategy[Any]]:
    """For each type of event, any event."""
    asked = st.lists(some(schema), max_size=3).map(tuple)
    values = st.lists(integers, max_size=4).map(tuple)
    crossing = st.none() | st.builds(gate.Crossing, sizes, st.none() | integers)
    releases = st.lists(counts, max_size=3).map(tuple)
    return {
        gate.Measured: st.builds(gate.Measured, sizes, costs, asked, noises, values),
        gate.RunStarted: run_started(),
        gate.Compared: st.builds(gate.Compared, sizes, sizes, sizes, crossing),
        gate.RunEnded: st.builds(gate.RunEnded, sizes, sizes, fractions),
        gate.HistogramReleased: st.builds(gate.HistogramReleased, sizes, costs, values, noises, counts),
        gate.Selected: st.builds(gate.Selected, sizes, costs, asked, sizes),
        gate.RowsDrawn: st.builds(gate.RowsDrawn, sizes, costs, asked, sizes, values),
        gate.ForeignReleased: st.builds(
            gate.ForeignReleased, sizes, costs, st.lists(integers | floats, max_size=5).map(tuple)
        ),
        gate.Combined: st.builds(
            gate.Combined, sizes, costs, groups, st.lists(spans, max_size=3).map(tuple), noises, counts, sums
        ),
        gate.SegmentBegun: begun,
        gate.Advanced: st.builds(
            gate.Advanced, sizes, costs, sizes, sizes, st.lists(patterns, max_size=3).map(tuple), releases
        ),
        gate.SegmentCondensed: st.builds(gate.SegmentCondensed, sizes, sizes, counts, counts, notes(schema)),
        gate.SegmentEnded: st.builds(gate.SegmentEnded, sizes, sizes, sizes, charges, notes(schema)),
        gate.Marked: st.builds(gate.Marked, sizes),
        gate.PersonsCounted: st.builds(gate.PersonsCounted, sizes, sizes),
        gate.Minimised: st.builds(
            gate.Minimised,
            *(sizes, costs, problems, methods, models),
            st.none() | st.tuples(sizes, sizes),
            st.none() | sizes,
        ),
        gate.Tallied: st.builds(gate.Tallied, sizes, costs, tallies, noises, counts),
        gate.Discovered: st.builds(
            gate.Discovered, sizes, costs, discoveries, st.lists(st.tuples(listed, integers), max_size=3).map(tuple)
        ),
        gate.Reserved: st.builds(gate.Reserved, sizes, costs, budgets),
        gate.ReservationEnded: st.builds(gate.ReservationEnded, sizes),
        gate.Condensed: st.builds(
            gate.Condensed,
            sizes,
            fractions,
            sizes,
            st.lists(run_started(), max_size=2).map(tuple),
            notes(schema),
            st.builds(Steps, ladders, ladders),
            sizes,
            st.lists(open_segments, max_size=2).map(tuple),
            st.lists(sizes, max_size=3).map(tuple),
            st.none() | st.builds(Steps, ladders, ladders),
        ),
        gate.Noted: st.builds(gate.Noted, notes(schema)),
    }
