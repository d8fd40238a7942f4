"""Events of the gate as lines of the ledger: JSON that a person can read, and that gives each event back bit for bit.

    {"v":1,"event":"Compared","size":1000,"run":3,"asked":17,"crossing":null}

A line is one object: the format's version, the event's name, and its fields in the order in which the class declares
them. A value of a field declared as one class is an object of that class's fields; if the field allows several classes,
the object is wrapped in its class's name, as in ``{"Laplace":{"scale":2.5}}``. Fractions are "p/q", floats have
the digits that give the same float back, infinities and NaN are texts, and large arrays are packed
(``codec/values.py``); queries are sets of codes (``codec/queries.py``).

Formal guarantee. ``decode(encode(event))`` is the event: equal fields, and arrays with equal bytes, dtype and shape, in
C order and read-only. Equal lines give equal events. A line names classes of a closed list only, and gives nothing but
their instances: nothing is imported, looked up or run because a line says so. A line that says what `encode` could not
have said (unknown name, missing, added or doubled field, wrong type, other version) is refused. (Other digits for the
same number, or spaces, are not: the ledger's chain of hashes notices those.)

Only public values are written here: secrets are not events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.budget.rows import Charge, Steps
from treering.domain.groups import Groups
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, RobustLogistic, Squared
from treering.domain.problem import Descent, Net, NoisyMoments, Perturbation, Problem, Refinement
from treering.domain.schema import Schema
from treering.domain.sums import Sums
from treering.domain.tally import Tally
from treering.errors import DamagedVault, NewerVault, VaultError
from treering.gate import (
    Advanced,
    Combined,
    Compared,
    Condensed,
    Crossing,
    Event,
    Fading,
    ForeignReleased,
    HistogramReleased,
    LeafCut,
    Marked,
    Measured,
    Minimised,
    NodeReleased,
    Noted,
    Ones,
    OpenSegment,
    ReservationEnded,
    Reserved,
    Root,
    RowsDrawn,
    RunEnded,
    RunRequest,
    RunStarted,
    SegmentBegun,
    SegmentCondensed,
    SegmentEnded,
    Selected,
    Span,
    Tallied,
    TreeCondensed,
    TreeStarted,
)
from treering.noise import Gaussian, Laplace
from treering.vault.codec.fields import Codec, Fields
from treering.vault.codec.queries import Queries

FORMAT: Final = 4
"""The latest version of the lines. Version 2 has charges by row; version 3 has sums, models of some rows, and what they
are made by; version 4 has weights that fade, and checkpoints of series. A line that an earlier version could have is
still of that version."""

SECOND: Final[tuple[type[Any], ...]] = (
    Condensed,
    Combined,
    SegmentBegun,
    Advanced,
    SegmentCondensed,
    SegmentEnded,
    Marked,
)
"""The events of version 2. (`Condensed` is older, and has more fields now.)"""

FIRST: Final[tuple[type[Any], ...]] = (
    Measured,
    RunStarted,
    Compared,
    RunEnded,
    HistogramReleased,
    Selected,
    RowsDrawn,
    ForeignReleased,
    TreeStarted,
    LeafCut,
    NodeReleased,
    TreeCondensed,
    Reserved,
    ReservationEnded,
    Noted,
)
"""The events of version 1 that have not changed since."""

THIRD: Final[tuple[type[Any], ...]] = (Minimised, Tallied)
"""The events of version 3. (`Minimised` is older, and has more fields now.)"""

FOURTH: Final[tuple[type[Any], ...]] = (Advanced, Condensed)
"""The events that may hold what only version 4 has."""

EVENTS: Final = (*FIRST, *SECOND, *THIRD)
"""The events that a line can hold. The name and fields of a class that was ever written are fixed: a change needs a new
version of the format."""

GROWN: Final[dict[type[Any], int]] = {Condensed: 5, Minimised: 5}
"""The later events that version 1 had, too, and with how many of their fields. The rest have their defaults."""

LATER: Final = {"Combined": 6, "SegmentBegun": 7, "Opened": 4, "Minimised": 6, "NoisyMoments": 3}
"""The classes that have got a field since they were first written, and how many they had (see `fields.grown`)."""

PARTS: Final[tuple[type[Any], ...]] = (
    Cost,
    Budget,
    Laplace,
    Gaussian,
    RunRequest,
    Crossing,
    Problem,
    Logistic,
    HuberHinge,
    Squared,
    Distance,
    HuberDistance,
    Perturbation,
    Descent,
    Net,
    NoisyMoments,
    Groups,
    Span,
    Ones,
    Root,
    Fading,
    Charge,
    Steps,
    OpenSegment,
    Sums,
    Tally,
    Refinement,
    RobustLogistic,
)
"""The classes that fields of events can hold. Those that notes can hold are declared by the mechanisms."""

SHARED: Final = frozenset({Cost, Budget, Laplace, Gaussian, Ones, Root, Fading})
"""Classes of small immutable values that recur: equal ones are read as one object."""


class EventCodec:
    """Reads and writes the events of one schema.

    ``notes`` are the classes of notes, and of the values in them: a closed list.
    """

    def __init__(self, schema: Schema, notes: tuple[type[Any], ...]) -> None:
        self._codecs = _codecs(notes)
        self._queries = Queries(schema)

    def encode(self, event: Event) -> str:
        """An event as one line of ASCII. Equal events give equal lines (arrays as one version of zlib packs them).

        `VaultError` names the part of a note, or the loss, that is of a class no vault can keep.
        """
        name = type(event).__name__
        if type(event) not in EVENTS:
            raise VaultError(f"{name} is no event that a vault can keep")
        version = version_of(event)
        try:
            return _dumps({"v": version, "event": name, **self._codecs[version, name].write(event)})
        except RecursionError:
            raise VaultError(f"{name} is nested too deeply to be kept in a vault") from None

    def decode(self, text: str) -> Event:
        """The event in a line. `DamagedVault` if the line is invalid, `NewerVault` if a later version wrote it."""
        try:
            return self._read(text)
        except DamagedVault as error:
            raise DamagedVault(f"a line of the ledger cannot be read: {error}") from None
        except RecursionError:
            raise DamagedVault("a line of the ledger cannot be read: it is nested too deeply") from None

    def _read(self, text: str) -> Event:
        try:
            raw, end = _scan(text)
        except ValueError:
            raise DamagedVault("it is not JSON") from None
        if type(raw) is not dict or end != len(text):
            raise DamagedVault("it is not one JSON object")
        version = raw.pop("v", None)
        if type(version) is not int or not 1 <= version <= FORMAT:
            raise _other_version(version)
        name = raw.pop("event", None)
        if type(name) is not str or (version, name) not in self._codecs:
            raise DamagedVault("it names no event of its version")
        event: Event = self._codecs[version, name].read(raw, self._queries)
        right = version_of(event)
        if version != right and max(version, right) > 2:
            raise DamagedVault("it is of another version than what it holds")
        return event


def version_of(event: Event) -> int:
    """The version of an event's line: the earliest that could have it."""
    kind = type(event)
    if isinstance(event, Advanced):
        return 4 if any(type(each) is Fading for each in event.patterns) else 2
    if isinstance(event, Compared):
        return 1
    if isinstance(event, Minimised):
        new = type(event.method) is NoisyMoments or type(event.problem.loss) in (HuberDistance, RobustLogistic)
        return 3 if new or (event.rows, event.held) != (None, None) else 1
    if isinstance(event, Condensed) and getattr(event.note, "line_version", 0) == 4:
        return 4
    if isinstance(event, Tallied) or _has_sums(event):
        return 3
    return 2 if kind in SECOND else 1


@lru_cache(maxsize=4)
def _codecs(notes: tuple[type[Any], ...]) -> dict[tuple[int, str], Codec]:
    """A codec for each event, by version and name."""
    fields = Fields(EVENTS, (*notes, *PARTS), SHARED, LATER)
    return (
        {(1, kind.__name__): fields.of(kind) for kind in FIRST}
        | {(1, kind.__name__): fields.once(kind, number) for kind, number in GROWN.items()}
        | {(version, kind.__name__): fields.of(kind) for version in (2, 3) for kind in SECOND}
        | {(3, kind.__name__): fields.of(kind) for kind in (*THIRD, Noted)}
        | {(4, kind.__name__): fields.of(kind) for kind in FOURTH}
    )


def _has_sums(event: Event) -> bool:
    """Whether an event is about sums, which versions before 3 did not have."""
    if isinstance(event, Condensed):
        return any(each.begun.sums is not None for each in event.segments)
    about = event.note if isinstance(event, Noted) else event
    return getattr(about, "sums", None) is not None


def _other_version(version: object) -> VaultError:
    if type(version) is int and version > FORMAT:
        return NewerVault(
            f"a line of the ledger is of format {version}, and this treering reads up to {FORMAT}: use a newer one"
        )
    return DamagedVault("it has no known version")


# -- JSON --------------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; refuses one with a name twice, which would hide a value."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DamagedVault("it has a field twice")
    return made


def _constant(_: str) -> NoReturn:
    raise DamagedVault("it has a number that is not JSON")


def _float(digits: str) -> float:
    """A number: digits beyond the floats, as in 1e999, would be read as an infinity, which is written as a text."""
    value = float(digits)
    if math.isinf(value):
        raise DamagedVault("it has a number beyond the floats")
    return value


_scan: Final[Callable[[str], tuple[Any, int]]] = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
).raw_decode
_dumps: Final[Callable[[Any], str]] = json.JSONEncoder(
    allow_nan=False, check_circular=False, separators=(",", ":")
).encode
