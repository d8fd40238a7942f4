"""Published tables: what was released, in a real database or a folder, for tools that read those."""
