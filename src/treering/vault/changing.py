"""Rows of a vault that are erased or corrected: who is told what, and what it does to answers that go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from treering.errors import ParameterError
from treering.mechanisms.series.changes import Changing, Held
from treering.trusted.store import Store
from treering.vault.members import Member


@dataclass(frozen=True, slots=True)
class Change:
    """What erasing or correcting rows does, or would do. It costs no row anything. All of it is public, or for the
    steward: which rows are changed, and when, is not protected."""

    rows: int
    """How many rows are erased or corrected."""
    size: int
    """How many rows are there afterwards."""
    done: bool
    """Whether it has happened; False for a dry run."""
    ended: bool
    """Whether the series ``held`` are ended."""
    held: tuple[tuple[str, Held], ...]
    """The series that have counted some of the rows, each with the name of its mechanism: they go on, with margins that
    are wider by as many rows, or are ended."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        listed = [
            {"mechanism": name, **held._asdict(), "attributes": list(held.attributes)} for name, held in self.held
        ]
        return {**asdict(self), "held": listed}


def change(store: Store, members: Sequence[Member], find: Callable[[Any], Any], *, dry_run: bool, end: bool) -> Change:
    """Erase or correct the rows that ``find`` finds, all of them or none; with ``dry_run``, say what that would do."""
    with store.alone():
        store.check()
        named = _changing(members)
        erasing = store.erasing()
        changes = find(erasing)
        positions, size = changes.positions, store.rows - (0 if changes.rows is not None else len(changes.positions))
        found = [(name, held) for name, each in named for held in each.holding(positions)]
        told = Change(len(positions), size, not dry_run, end, tuple(found))
        if dry_run:
            return told

        def recorded() -> None:
            for _, each in named:
                each.change(positions, end=end)

        erasing.carry_out(changes, recorded)
        for _, each in named:
            each.recount()
        return told


def _changing(members: Sequence[Member]) -> list[tuple[str, Changing]]:
    """What the change does to each mechanism, by its name. Refused if one can only tell of rows that stay."""
    found = [(each.spec.name, each.mechanism.changing) for each in members]
    fixed = [repr(name) for name, each in found if each is None]
    if fixed:
        raise ParameterError(
            "mechanism",
            f"{', '.join(fixed)} can only tell what holds for rows that stay: rows are erased and corrected where all "
            "mechanisms are of kind 'rings'",
        )
    return [(name, each) for name, each in found if each is not None]
