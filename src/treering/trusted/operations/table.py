"""Which operation releases events of which class; a registered one is loaded when it is met."""

from __future__ import annotations

from typing import Any, Final

from treering.trusted import registry
from treering.trusted.operations.base import Operation
from treering.trusted.operations.combine import Combining
from treering.trusted.operations.count import Counting
from treering.trusted.operations.run import Abandoning, Comparing, Starting
from treering.trusted.operations.segment import Advancing, Beginning, Condensing, Ending, Marking

_PRESENT: Final[tuple[Operation[Any, Any], ...]] = (
    *(Counting(), Starting(), Comparing(), Abandoning(), Combining()),
    *(Marking(), Beginning(), Advancing(), Condensing(), Ending()),
)
_OPERATIONS: Final = {each.event: each for each in _PRESENT}


def operation(kind: type[Any]) -> Operation[Any, Any]:
    """The operation that releases events of this class."""
    if kind not in _OPERATIONS:
        _OPERATIONS[kind] = registry.operation(registry.EVENTS[kind.__name__])()
    return _OPERATIONS[kind]
