"""PUBLIC programs over the gate: they read like the pseudocode, and could not leak if they tried."""
