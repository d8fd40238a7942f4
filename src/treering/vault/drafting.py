"""Vaults whose schema is drafted within their own promise, of the rows that come first."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Final

from treering.budget.promise import Promise
from treering.errors import DataError, ParameterError
from treering.mechanisms.drafting import drafted
from treering.rowfile import RowFile
from treering.trusted import store as stores
from treering.trusted.store import Origin, Spec, Store
from treering.vault.kinds import NOTES

DRAFT_SHARE: Final = 0.05
"""The share of the promise that a draft costs the rows that it looks at."""


def create_drafted(
    path: str | PathLike[str],
    promise: Promise,
    file: str | PathLike[str] | RowFile,
    share: Fraction,
    name: str,
    wait: float,
    first: Callable[[Origin], Spec],
) -> None:
    """A vault with the rows of a file, and the schema that was drafted of them. What the draft has released is on
    record as the first that the first mechanism did, and charged to these rows. After an error, or a crash, there is no
    vault."""
    if not promise.aside:
        raise ParameterError("delta", "must be above 0 for a draft within the promise, and a person has one row")
    rows = file if isinstance(file, RowFile) else RowFile(Path(file))
    part = promise.failure / 2
    made = stores.draft(rows, promise, share, lambda gate, columns: drafted(gate, columns, part))
    with stores.finish(path) as place:
        origin = stores.originate(made.schema, promise, None, None, "id", name)
        stores.create(place, origin, first(origin), wait, made.events)
        with Store.opening(place, NOTES, wait) as store:
            taken = store.append(rows, "refuse", None, again=True)
            if taken.size != made.rows:
                raise DataError("the file has changed while a schema was drafted of it: nothing was made")
            store.close()
