"""PUBLIC: the privacy budget: promises, costs and the filter that composes them, in exact rational arithmetic."""
