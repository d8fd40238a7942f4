"""Synthetic rows from what a vault has released."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from treering.errors import ParameterError, QueryError
from treering.mechanisms.pmwg import PMWG
from treering.params import whole
from treering.schedulers.base import Scheduled
from treering.schedulers.ermg import ERMG
from treering.vault.kinds import Mechanism


def sampled(mechanism: Mechanism, rows: int, generator: Any) -> pa.Table:
    """Synthetic rows from a mechanism that has some."""
    if isinstance(mechanism, PMWG):
        return mechanism.hypothesis.sample(rows, generator)
    if isinstance(mechanism, Scheduled) and not isinstance(mechanism, ERMG):
        if generator is None:
            raise ParameterError("generator", "must be given: numpy.random.default_rng(), as rows are drawn at random")
        return mechanism.release.sample(whole(rows, "rows", 0), generator)
    raise QueryError("a continual histogram and a model draw no rows: add a pmwg or a scheduler")
