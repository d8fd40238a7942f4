"""The public histogram that PMW, PMWG and MWEM learn: a distribution over all cells, and fast sums over its parts."""
