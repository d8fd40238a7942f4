"""PUBLIC: the finite universe and the questions one can ask of it."""
