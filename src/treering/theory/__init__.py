"""PUBLIC: theorems as functions, the paper's and ours beside them. Pure arithmetic: nothing here touches data."""

from treering.theory import sparse, tails

__all__ = ["sparse", "tails"]
