"""PUBLIC: theorems as functions: the paper's, and ours beside them. Pure arithmetic on public numbers, no data."""

from treering.theory import continual, erm, plan, pmwg, schedule, series, smalldb, sparse, static, tails

__all__ = ["continual", "erm", "plan", "pmwg", "schedule", "series", "smalldb", "sparse", "static", "tails"]
