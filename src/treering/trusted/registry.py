"""What of the trusted base is loaded when it is met: closed lists, by name.

A *registered operation* is met when a gate is asked for it, or when a line of the ledger has its event. What reads
files, or lists of dicts, is met when one is appended, what connects to engines when rows stay in one, and what makes a
vault, or keeps rows in memory, when it is named. The lists are closed: nothing else is imported because a request or a
line says so.
"""

from __future__ import annotations

from typing import Any, Final

from treering.lazy import loaded

OPERATIONS: Final = {
    "histogram": "treering.trusted.operations.histogram:Tabulating",
    "select": "treering.trusted.operations.select:Selecting",
    "draw_rows": "treering.trusted.operations.draw:Drawing",
    "foreign": "treering.trusted.operations.foreign:Foreign",
    "minimise": "treering.trusted.operations.minimise:Minimising",
    "tally": "treering.trusted.operations.minimise:Tallying",
    "discover": "treering.trusted.operations.discover:Discovering",
    "count_persons": "treering.trusted.operations.persons:Numbering",
}
"""The class of each registered operation, by the name of the gate's method."""

EVENTS: Final = {
    "HistogramReleased": "histogram",
    "Selected": "select",
    "RowsDrawn": "draw_rows",
    "ForeignReleased": "foreign",
    "Minimised": "minimise",
    "Tallied": "tally",
    "Discovered": "discover",
    "PersonsCounted": "count_persons",
}
"""The operation of each event that a registered operation releases."""


PERSONS: Final = {
    "of_persons": "treering.trusted.operations.persons:of_persons",
    "firsts": "treering.trusted.operations.firsts:firsts",
    "people_of": "treering.trusted.rows.persons:people_of",
    "Persons": "treering.trusted.rows.persons:Persons",
}
"""What knows whose rows are whose, and which row is which, where columns of these are declared: the limit of each
person, and who was counted."""

CHANGES: Final = {
    "Rewriting": "treering.trusted.changes.rewriting:Rewriting",
    "Erasing": "treering.trusted.changes.erasing:Erasing",
}
"""What writes parts anew, and erases and corrects rows."""

FILES: Final = {
    "blocks": "treering.trusted.rows.files:blocks",
    "line_of": "treering.trusted.rows.files:line_of",
    "listed": "treering.trusted.rows.values:listed",
}
"""What reads files of rows, and rows that come as values of Python."""

ENGINES: Final = {
    "Source": "treering.trusted.engines.source:Source",
    "Ahead": "treering.trusted.engines.ahead:Ahead",
    "Attached": "treering.trusted.engines.attached:Attached",
    "source_of": "treering.trusted.engines.attached:source_of",
    "claim": "treering.trusted.engines.attached:claim",
}
"""What is needed where rows stay in a table of an engine."""

NAMED: Final = {
    "create": "treering.trusted.creating:create",
    "draft": "treering.trusted.drafting:draft",
    "finish": "treering.trusted.drafting:finish",
    "originate": "treering.trusted.creating:originate",
    "GrowingDatabase": "treering.trusted.memory.database:GrowingDatabase",
    "GrowingPoints": "treering.trusted.memory.points:GrowingPoints",
    "Bounds": "treering.trusted.learning.points:Bounds",
    "Samples": "treering.trusted.learning.points:Samples",
    "features_of": "treering.trusted.learning.points:features_of",
}
"""What makes new vaults, what keeps rows in memory, and points to learn from: `store` has these names."""


def operation(name: str) -> Any:
    """The class of a registered operation (`treering.trusted.operations.base.Operation`), loaded now if it was not
    before."""
    return loaded(OPERATIONS[name])


def part(name: str) -> Any:
    """A class or function of the lists above, loaded now if it was not before."""
    return loaded({**PERSONS, **CHANGES, **FILES, **ENGINES, **NAMED}[name])
