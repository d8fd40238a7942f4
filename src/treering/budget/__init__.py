"""PUBLIC: what privacy costs, in exact rational arithmetic."""
