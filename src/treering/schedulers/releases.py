"""What a box released, taken with care: a box is somebody else's program, and what it returns may be anything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Box, Release
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.errors import QueryError, TreeringError
from treering.gate import Event
from treering.replay import RecordedGate
from treering.schedulers.epochs import Epoch, record_of

MOST_WORDS: Final = 500
"""How much of a box's error message is kept."""


class Broken(Exception):
    """A release that cannot be used. It never leaves this package."""


def check(release: Any, schema: Schema, size: int) -> Release:
    """A release about this database at this size, as far as one question can tell."""
    if not isinstance(release, Release):
        raise Broken(f"the box returned {type(release).__name__}, not a Release")
    if release.schema != schema:
        raise Broken("the box's release is about another schema")
    if release.size != size:
        raise Broken(f"the box's release is about {release.size!r} rows, not {size:,}")
    first = np.zeros(schema.shape[0], dtype=np.bool_)
    first[0] = True
    # The question may be outside the box's class: that is the box's right.
    with suppress(QueryError):
        shares(release, [Query.conjunction(schema, {0: first})])
    return release


def shares(release: Release, queries: Sequence[Query]) -> tuple[Floats, Floats]:
    """The shares that a release states, and their errors: finite numbers, one for each query, no error below 0.

    `QueryError` says that a query is outside the box's class. Whatever else it raises is its own fault.
    """
    try:
        values, errors = release.shares(queries)
        return _numbers(values, len(queries), "shares"), _numbers(errors, len(queries), "errors", least=0.0)
    except (TreeringError, MemoryError, Broken):
        raise
    except Exception as error:
        raise Broken(f"the box's release could not answer: {describe(error)}") from error


def _numbers(values: Any, length: int, what: str, least: float = -np.inf) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,):
        raise Broken(f"the box's release gave {what} of shape {array.shape} for {length:,} queries")
    if not (np.isfinite(array) & (array >= least)).all():
        raise Broken(f"the box's release gave {what} that are no finite numbers{'' if least < 0 else ' of at least 0'}")
    return array


def rebuild(box: Box, schema: Schema, history: Sequence[Event], epoch: Epoch) -> Release:
    """The release of an epoch on record: the box, run again over what the gate gave it then."""
    part, events = record_of(history, epoch.index)
    gate = RecordedGate(schema, epoch.size, part, events)
    try:
        return check(box.run(gate, part, epoch.alpha, epoch.beta), schema, epoch.size)
    except Exception as error:
        raise TreeringError(
            f"the release of epoch {epoch.index} cannot be made again from the record: {describe(error)}. "
            "It takes the same box, which must be a deterministic function of what the gate gives it"
        ) from error


def describe(error: BaseException) -> str:
    """An error as a line for the record. A box sees public values only, so its messages are public."""
    text = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}".removesuffix(": ")
    return text if len(text) <= MOST_WORDS else text[:MOST_WORDS] + "…"
