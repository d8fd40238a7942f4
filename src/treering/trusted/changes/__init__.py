"""PRIVATE: parts of rows that are written anew: sealed, merged, and with rows erased or corrected."""
