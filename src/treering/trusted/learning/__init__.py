"""PRIVATE: private learning: the points that are kept, the minimisers that read them, and rows held out for tests."""
