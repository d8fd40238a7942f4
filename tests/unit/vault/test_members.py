"""When a mechanism of a vault gets a checkpoint: as soon as replaying takes long, and on close if it is worth it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import pytest

from treering.trusted.ledger.shares import Spec
from treering.vault.members import Member


class Worked:
    """A mechanism with so much to replay."""

    def __init__(self, backlog: int | None) -> None:
        self.backlog = backlog
        self.condensed = 0

    def condense(self) -> None:
        """Count the calls."""
        self.condensed += 1


def condensed(backlog: int | None, fresh: int, *, closing: bool) -> bool:
    """Whether a checkpoint is made."""
    worked: Any = Worked(backlog)
    Member(Spec("pmwg", "pmwg", Fraction(1), {}), cast(Any, worked), lambda: fresh).condense(closing=closing)
    return bool(worked.condensed)


@pytest.mark.parametrize(
    ("backlog", "fresh", "usual", "closing"),
    [
        (0, 0, False, False),
        # A thousand steps of a histogram: of a thousand cells they are nothing, of 2^20 they are due.
        (1000 * 2**10, 1000, False, True),
        (1000 * 2**20, 1000, True, True),
        (2**29 + 1, 0, True, True),
        (2**29, 0, False, True),
        (2**26, 0, False, False),
        # Events that move nothing are read all the same.
        (0, 10, False, False),
        (0, 1000, False, True),
        (0, 10_000, True, True),
        (0, 512, False, False),
        (0, 513, False, True),
        (0, 4096, False, True),
        (0, 4097, True, True),
        (2**26 + 1, 0, False, True),
        # What has nothing to condense is left alone, whatever it has on record.
        (None, 10**9, False, False),
    ],
)
def test_a_checkpoint_is_made_when_replaying_would_take_long(
    backlog: int | None, fresh: int, usual: bool, closing: bool
) -> None:
    assert condensed(backlog, fresh, closing=False) == usual
    assert condensed(backlog, fresh, closing=True) == closing
