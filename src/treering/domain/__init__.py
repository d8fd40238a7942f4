"""PUBLIC: the finite universe of cells, queries about it, and problems of private learning over it."""
