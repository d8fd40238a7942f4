"""The public histogram that PMW, PMWG and MWEM learn."""
