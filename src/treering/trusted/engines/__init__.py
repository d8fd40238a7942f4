"""PRIVATE: rows that stay in a database engine, and are counted there."""
