"""Claims that an experiment checks: each is printed with what was found, and one that fails makes the exit code 1."""

from __future__ import annotations

from typing import Final

from experiments.stream import Tally

ROUNDING: Final = 1e-12
"""What floating point may add to an error."""


class Claims:
    """The claims of one experiment."""

    def __init__(self) -> None:
        self.broken = 0

    def at_most(self, claim: str, found: float, limit: float) -> None:
        """Claim that what was found is at most the limit."""
        holds = found <= limit
        self.broken += not holds
        print(f"  {'holds ' if holds else 'BROKEN'}  {claim}: {found:.4g}, at most {limit:.4g}")

    def accurate(self, name: str, tally: Tally, alpha: float) -> None:
        """Claim that every error was within its bound, and every bound within alpha."""
        self.at_most(f"{name}: largest error less its bound", tally.worst_excess, ROUNDING)
        self.at_most(f"{name}: largest bound", tally.widest_bound, alpha + ROUNDING)

    def exit_code(self) -> int:
        """0 if all claims hold, otherwise 1."""
        return 1 if self.broken else 0
