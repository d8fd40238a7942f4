"""PRIVATE: the trusted base, the only code that opens rows, true counts or secret noise.

An auditor reads this folder, ``budget/`` and the vault's journal, and nothing else, to believe the promise. Public
programs reach it through the gate (`treering.gate`) only.
"""
