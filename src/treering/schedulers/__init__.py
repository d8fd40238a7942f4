"""PUBLIC schedulers: mechanisms that rerun a box as the database grows, each run on its part of the budget."""
