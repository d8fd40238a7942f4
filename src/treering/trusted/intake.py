"""Rows at the door of a durable store: encoded, checked against each person's limit, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from treering.domain.schema import Schema
from treering.trusted.rows.batches import Batch
from treering.trusted.rows.encode import INVALID, encode_all
from treering.trusted.rows.persons import Persons, excess


def take_in(frame: Any, schema: Schema, persons: Persons | None, *, drop: bool) -> tuple[Batch, int]:
    """The rows as a batch, and how many were left out (only with ``drop``): those that do not fit the schema, or are
    beyond the limit of their person. Without ``drop`` one such row refuses all, with its position."""
    if persons is None:
        cells = encode_all(frame, schema, drop=drop)
        kept = cells[cells != INVALID]
        return Batch.of(kept), len(cells) - len(kept)
    rest, digests = persons.split(frame)
    cells = encode_all(rest, schema, drop=drop)
    fitting = np.flatnonzero(cells != INVALID)
    within = persons.within([digests[row] for row in fitting])
    if not drop and not within.all():
        raise excess(int(fitting[within.argmin()]), persons)
    taken = fitting[within]
    return Batch.of(cells[taken], Counter(digests[row] for row in taken)), len(cells) - len(taken)
