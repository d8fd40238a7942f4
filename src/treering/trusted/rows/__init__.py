"""PRIVATE: rows: how they come in, are kept in memory and on the disk, and are counted."""
