"""PUBLIC: theorems as functions, the paper's and ours beside them. Pure arithmetic: nothing here touches data."""

from treering.theory import pmwg, sparse, tails

__all__ = ["pmwg", "sparse", "tails"]
