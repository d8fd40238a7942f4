"""PRIVATE: rows on their way in: encoded as cells, limited by person, kept as batches."""
