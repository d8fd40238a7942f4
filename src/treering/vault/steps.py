"""The named steps of the vault's protocol: where a crash could fall, and where the tests make one fall."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Step(Enum):
    """A moment between two things that a vault does. A crash at any of them loses nothing that was released."""

    PART_OPENED = "a part has a temporary name and nothing in it"
    PART_WRITTEN = "a part is written under its temporary name, not yet synced"
    PART_SYNCED = "a part is on disk under its temporary name"
    PART_NAMED = "a part has its name, and the ledger does not know it"
    COMMIT_BEGUN = "the lines are not yet given to the ledger's database"
    COMMIT_READY = "the lines are with the ledger's database, not yet committed"
    COMMITTED = "the lines are durable, and nothing of them has left"
    ROWS_COUNTED = "new rows are durable and counted; mechanisms are not yet told"
    ANSWERED = "an answer is durable, and has not left"
    CHECKPOINT_OPENED = "a checkpoint has a temporary name"
    CHECKPOINT_WRITTEN = "a checkpoint is written under its temporary name, not yet synced"
    CHECKPOINT_SYNCED = "a checkpoint is on disk under its temporary name"
    CHECKPOINT_NAMED = "a checkpoint has its name, and the ledger does not know it"
    BASE_OPENED = "a base has a temporary name"
    BASE_WRITTEN = "a base is written under its temporary name, not yet synced"
    BASE_SYNCED = "a base is on disk under its temporary name"
    BASE_NAMED = "a base has its name, and the ledger does not know it"


Observer = Callable[[Step], None]


def _unobserved(step: Step) -> None:
    """Nobody watches."""


_observer: list[Observer] = [_unobserved]


def reached(step: Step) -> None:
    """Say that this step of the protocol is reached."""
    _observer[0](step)


def observe(observer: Observer | None) -> None:
    """Have each step of the protocol, in this process, told to an observer; None ends that. For fault injection."""
    _observer[0] = observer or _unobserved
