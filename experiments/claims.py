"""Claims that an experiment checks: each is printed with what was found, and one that fails makes the exit code 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from experiments.stream import Tally

ROUNDING: Final = 1e-12
"""What floating point may add to an error."""


class Claim(NamedTuple):
    """One claim, and what was found."""

    words: str
    found: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether what was found is at most the limit."""
        return self.found <= self.limit


_heard: ContextVar[list[Claim] | None] = ContextVar("_heard", default=None)


@contextmanager
def heard() -> Iterator[list[Claim]]:
    """All claims that are made in here, by whichever experiment."""
    claims: list[Claim] = []
    token = _heard.set(claims)
    try:
        yield claims
    finally:
        _heard.reset(token)


class Claims:
    """The claims of one experiment."""

    def __init__(self) -> None:
        self.broken = 0

    def at_most(self, claim: str, found: float, limit: float) -> None:
        """Claim that what was found is at most the limit."""
        made = Claim(claim, found, limit)
        self.broken += not made.holds
        listening = _heard.get()
        if listening is not None:
            listening.append(made)
        print(f"  {'holds ' if made.holds else 'BROKEN'}  {claim}: {found:.4g}, at most {limit:.4g}")

    def accurate(self, name: str, tally: Tally, alpha: float) -> None:
        """Claim that every error was within its bound, and every bound within alpha."""
        self.at_most(f"{name}: largest error less its bound", tally.worst_excess, ROUNDING)
        self.at_most(f"{name}: largest bound", tally.widest_bound, alpha + ROUNDING)

    def exit_code(self) -> int:
        """0 if all claims hold, otherwise 1."""
        return 1 if self.broken else 0
