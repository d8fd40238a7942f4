"""PUBLIC mechanisms: programs over the gate that answer queries while the database grows.

They see what the gate releases and nothing else, so privacy does not depend on their code.
"""
