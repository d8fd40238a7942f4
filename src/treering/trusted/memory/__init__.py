"""Growing databases that live as long as their process: a table, and points to learn from."""
