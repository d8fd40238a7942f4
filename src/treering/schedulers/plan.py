"""What a scheduler needs of a schedule: `treering.theory.schedule` makes them."""

from __future__ import annotations

from typing import Protocol

from treering.budget.promise import Budget


class PlannedEpoch(Protocol):
    """One epoch of a plan."""

    @property
    def index(self) -> int:
        """Its number, from 0 on."""

    @property
    def size(self) -> int:
        """The size at which it is due."""

    @property
    def budget(self) -> Budget:
        """What its run may cost."""

    @property
    def beta(self) -> float:
        """The chance that it may fail with."""

    @property
    def alpha(self) -> float:
        """The error that its box promises at that size."""


class Plan(Protocol):
    """When epochs open, and what each may cost, for all time to come."""

    @property
    def start(self) -> int:
        """The size at which epoch 0 opens."""

    def epoch(self, index: int) -> PlannedEpoch:
        """An epoch."""

    def index_at(self, size: int) -> int:
        """The latest epoch that opens at this size or before."""

    def next_size(self, size: int) -> int:
        """The smallest size above this one at which an epoch opens."""

    def alpha_at(self, size: int) -> float:
        """The error that every answer keeps to at this size, staleness included, if every epoch opens when due."""
