"""PUBLIC: when to rerun a black box as the data grow, and on which part of the budget."""
