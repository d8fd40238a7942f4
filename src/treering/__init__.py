"""Differential privacy for databases that never stop growing.

Everything public is here; a name is imported from its module when it is first used, so ``import treering`` is cheap.

    schema     Schema, categories, integers, bins, OTHER
    questions  Query, parse
    data       GrowingDatabase, DroppedRows
    answers    PMW, PMWG: adaptive queries without end; ATG, NATG, NSG: sparse vector; Answer, Guarantee
    promises   Promise
    errors     TreeringError and everything below it
    modules    audit, budget, domain, theory
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "ATG",
    "NATG",
    "NSG",
    "OTHER",
    "PMW",
    "PMWG",
    "Answer",
    "BudgetExceeded",
    "DataError",
    "DroppedRows",
    "EngineError",
    "GrowingDatabase",
    "Guarantee",
    "GuaranteeError",
    "Halted",
    "ParameterError",
    "Promise",
    "Query",
    "QueryError",
    "Schema",
    "SchemaError",
    "TreeringError",
    "VaultError",
    "audit",
    "bins",
    "budget",
    "categories",
    "domain",
    "integers",
    "parse",
    "theory",
]

if TYPE_CHECKING:
    from treering import audit, budget, domain, theory
    from treering.answer import Answer, Guarantee
    from treering.budget.promise import Promise
    from treering.domain.attribute import OTHER, bins, categories, integers
    from treering.domain.parse import parse
    from treering.domain.query import Query
    from treering.domain.schema import Schema
    from treering.errors import (
        BudgetExceeded,
        DataError,
        EngineError,
        GuaranteeError,
        Halted,
        ParameterError,
        QueryError,
        SchemaError,
        TreeringError,
        VaultError,
    )
    from treering.mechanisms.pmw import PMW
    from treering.mechanisms.pmwg import PMWG
    from treering.mechanisms.sparse import ATG, NATG, NSG
    from treering.trusted.database import DroppedRows, GrowingDatabase
else:
    # Hidden from type checkers, which would otherwise take every misspelt name for a public one.

    _HOMES = {
        "treering.answer": ("Answer", "Guarantee"),
        "treering.budget.promise": ("Promise",),
        "treering.domain.attribute": ("OTHER", "bins", "categories", "integers"),
        "treering.domain.parse": ("parse",),
        "treering.domain.query": ("Query",),
        "treering.domain.schema": ("Schema",),
        "treering.errors": (
            "BudgetExceeded",
            "DataError",
            "EngineError",
            "GuaranteeError",
            "Halted",
            "ParameterError",
            "QueryError",
            "SchemaError",
            "TreeringError",
            "VaultError",
        ),
        "treering.mechanisms.pmw": ("PMW",),
        "treering.mechanisms.pmwg": ("PMWG",),
        "treering.mechanisms.sparse": ("ATG", "NATG", "NSG"),
        "treering.trusted.database": ("DroppedRows", "GrowingDatabase"),
    }
    _HOME = {name: module for module, names in _HOMES.items() for name in names}

    def __getattr__(name):
        """Import a public name or module on its first use, and keep it."""
        from importlib import import_module

        if name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        elif name in __all__:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        """What is public, whether it was imported already or not."""
        return [*__all__, "__version__"]
