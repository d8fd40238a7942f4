"""PRIVATE: rows on their way in: encoded, limited by person, kept as batches."""
