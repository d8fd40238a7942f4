"""PRIVATE: the trusted base, the only code that reads rows, true counts or secret noise.

To believe the promise, an auditor reads this folder, ``budget/`` and the vault's journal, and nothing else. Public
programs reach it through the gate (`treering.gate`) only.
"""
