"""PRIVATE: training rows, and the minimisers that see them."""
