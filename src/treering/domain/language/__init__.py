"""Predicates and SQL that people type, read into queries."""
