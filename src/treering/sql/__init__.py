"""SQL over a growing table in two stages: what must be released, in one batch, and what follows from it for free."""
