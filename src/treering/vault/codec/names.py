"""Which classes a line of the ledger may name: a closed list.

A name, once written, is for ever: a class that is renamed keeps its name here, and one whose fields change needs a new
version of the format.
"""

from __future__ import annotations

from typing import Any, Final

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import Descent, Net, Perturbation, Problem
from treering.gate import (
    Compared,
    Condensed,
    Crossing,
    ForeignReleased,
    Gaussian,
    HistogramReleased,
    Laplace,
    LeafCut,
    Measured,
    Minimised,
    NodeReleased,
    Noted,
    ReservationEnded,
    Reserved,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    Selected,
    TreeCondensed,
    TreeStarted,
)
from treering.mechanisms.continual import Estimates, Piece
from treering.mechanisms.histogram.hypothesis import KeptHistogram
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.paper import Over, Updated
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
from treering.schedulers.epochs import EpochBegan, EpochFailed, EpochOpened
from treering.theory.sparse import RunScales

EVENTS: Final[dict[str, type[Any]]] = {
    "Measured": Measured,
    "RunStarted": RunStarted,
    "Compared": Compared,
    "RunEnded": RunEnded,
    "HistogramReleased": HistogramReleased,
    "Selected": Selected,
    "RowsDrawn": RowsDrawn,
    "ForeignReleased": ForeignReleased,
    "TreeStarted": TreeStarted,
    "LeafCut": LeafCut,
    "NodeReleased": NodeReleased,
    "TreeCondensed": TreeCondensed,
    "Minimised": Minimised,
    "Reserved": Reserved,
    "ReservationEnded": ReservationEnded,
    "Condensed": Condensed,
    "Noted": Noted,
}
"""What a line can be."""

NOTES: Final[dict[str, type[Any]]] = {
    "Grown": Grown,
    "Learned": Learned,
    "Corrected": Corrected,
    "Judged": Judged,
    "Doubted": Doubted,
    "Kept": Kept,
    "Summary": Summary,
    "Updated": Updated,
    "Over": Over,
    "Estimates": Estimates,
    "EpochBegan": EpochBegan,
    "EpochOpened": EpochOpened,
    "EpochFailed": EpochFailed,
}
"""What our mechanisms note."""

PARTS: Final[dict[str, type[Any]]] = {
    "Cost": Cost,
    "Budget": Budget,
    "Laplace": Laplace,
    "Gaussian": Gaussian,
    "RunRequest": RunRequest,
    "Crossing": Crossing,
    "Problem": Problem,
    "Logistic": Logistic,
    "HuberHinge": HuberHinge,
    "Squared": Squared,
    "Distance": Distance,
    "Perturbation": Perturbation,
    "Descent": Descent,
    "Net": Net,
    "Step": Step,
    "TightState": TightState,
    "RunState": RunState,
    "RunScales": RunScales,
    "KeptHistogram": KeptHistogram,
    "KeptRecords": KeptRecords,
    "Piece": Piece,
}
"""What events and notes are made of."""

CLASSES: Final[dict[str, type[Any]]] = {**NOTES, **PARTS}
"""What can be inside of a line."""

SHARED: Final[frozenset[type[Any]]] = frozenset({Cost, Budget, Laplace, Gaussian})
"""Small immutable values that come again and again: reading one twice gives one object."""
