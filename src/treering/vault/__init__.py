"""Durable state: a vault is one folder on disk that holds one growing database and its promise."""
