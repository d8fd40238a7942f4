"""Which box runs in which epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from treering.boxes.base import Box
from treering.budget.promise import Kind
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError

BoxOrFunction: TypeAlias = Box | Callable[[int], Box]
"""A box, or a function from an epoch's index to its box: then the query class may change from epoch to epoch. The
function must be deterministic, for replay calls it again."""


class Supply:
    """The boxes of a scheduler, for one universe and one kind of budget that they are given."""

    def __init__(self, box: BoxOrFunction, schema: Schema, kind: Kind) -> None:
        if not isinstance(box, Box) and not callable(box):
            raise ParameterError("box", f"must be a Box, or a function from an epoch to one, not {type(box).__name__}")
        self._schema = schema
        self._kind = kind
        self._box = box
        self.first = self.at(0)
        """The box of the first epoch, which the schedule is made for."""
        if isinstance(box, Box):
            self._box = self.first  # What it prepared when it was bound is of use in all epochs.

    def at(self, index: int) -> Box:
        """The box of an epoch."""
        box = self._box if isinstance(self._box, Box) else self._box(index)
        if not isinstance(box, Box):
            raise ParameterError("box", f"must give a Box for epoch {index}, not {type(box).__name__}")
        if self._kind == "pure" and box.kind == "zcdp":
            raise GuaranteeError(
                f"{type(box).__name__} is private under zCDP only, and would be given a pure epsilon: it needs "
                'delta > 0 and profile="tight", or else take a pure box'
            )
        return box.bind(self._schema)
