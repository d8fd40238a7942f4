"""PUBLIC mechanisms: programs over the gate that answer queries while the database grows.

They see what the gate releases and nothing else, so no mistake in them can leak private data.
"""
