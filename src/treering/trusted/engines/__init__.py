"""PRIVATE: rows that stay in an engine, counted there."""
