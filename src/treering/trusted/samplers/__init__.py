"""Exact samplers of discrete noise: one draw after the other, and whole arrays."""
