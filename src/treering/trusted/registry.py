"""The registered operations: a closed list, by name and by event. One that is not met is not loaded.

An operation is met when a gate is asked for it, or when a line of the ledger has its event. The list is closed: nothing
else is imported because a request or a line says so.
"""

from __future__ import annotations

from typing import Any, Final

from treering.lazy import loaded

OPERATIONS: Final = {
    "draw_rows": "treering.trusted.operations.draw:Drawing",
    "foreign": "treering.trusted.operations.foreign:Foreign",
    "minimise": "treering.trusted.operations.minimise:Minimising",
    "tally": "treering.trusted.operations.minimise:Tallying",
}
"""The class of each registered operation, by the name of the gate's method."""

EVENTS: Final = {
    "RowsDrawn": "draw_rows",
    "ForeignReleased": "foreign",
    "Minimised": "minimise",
    "Tallied": "tally",
}
"""The operation of each event that a registered operation releases."""


def operation(name: str) -> Any:
    """The class of a registered operation (`treering.trusted.operations.base.Operation`), loaded now if it was not
    before."""
    return loaded(OPERATIONS[name])
