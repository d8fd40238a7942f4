"""PRIVATE: the trusted base, the only code that reads rows, true counts or secret noise.

Public programs reach it through a gate (`treering.protocols.Gate`). What opens one, a vault or a database in memory, is
named through ``store`` and through nothing else. docs/privacy.md lists what an auditor reads.
"""
