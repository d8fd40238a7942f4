"""Durable state: one folder on disk is one growing database with its promise."""
