"""Differential privacy for databases that never stop growing.

Everything public is here; a name is imported from its module when it is first used, so ``import treering`` is cheap.

    schema     Schema, categories, integers, bins, OTHER
    questions  Query, parse
    data       GrowingDatabase, DroppedRows
    durable    Vault, VaultReader: a growing database in a folder, with its promise
    answers    PMW, PMWG: adaptive queries without end; ATG, NATG, NSG: sparse vector; ContinualHistogram: few cells;
               Answer, Guarantee
    boxes      Box; AnswersBox, HistogramBox, MarginalsBox, MWEM, SmallDB, from_opendp: static private algorithms
    schedulers BBScheduler, BBImprover, SmallDBG: a box, rerun as the data grow
    learning   ERM, ERMG, Model: private empirical risk minimisation; treering.learn: scikit-learn estimators
    planning   plan, Plan: which of them, for your parameters
    promises   Promise
    errors     TreeringError and everything below it
    modules    audit, budget, domain, learn, theory
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "ATG",
    "ERM",
    "ERMG",
    "MWEM",
    "NATG",
    "NSG",
    "OTHER",
    "PMW",
    "PMWG",
    "Answer",
    "AnswersBox",
    "BBImprover",
    "BBScheduler",
    "Box",
    "BudgetExceeded",
    "ContinualHistogram",
    "DamagedVault",
    "DataError",
    "DroppedRows",
    "EngineError",
    "GrowingDatabase",
    "Guarantee",
    "GuaranteeError",
    "Halted",
    "HistogramBox",
    "MarginalsBox",
    "Model",
    "NewerVault",
    "NotAVault",
    "ParameterError",
    "Plan",
    "Promise",
    "Query",
    "QueryError",
    "Schema",
    "SchemaError",
    "SmallDB",
    "SmallDBG",
    "TreeringError",
    "Vault",
    "VaultBusy",
    "VaultError",
    "VaultReader",
    "audit",
    "bins",
    "budget",
    "categories",
    "domain",
    "from_opendp",
    "integers",
    "learn",
    "parse",
    "plan",
    "theory",
]

if TYPE_CHECKING:
    from treering import audit, budget, domain, learn, theory
    from treering.answer import Answer, Guarantee
    from treering.boxes.answers import AnswersBox
    from treering.boxes.base import Box
    from treering.boxes.erm import ERM, Model
    from treering.boxes.histogram import HistogramBox
    from treering.boxes.marginals import MarginalsBox
    from treering.boxes.mwem import MWEM
    from treering.boxes.opendp import from_opendp
    from treering.boxes.smalldb import SmallDB
    from treering.budget.promise import Promise
    from treering.domain.attribute import OTHER, bins, categories, integers
    from treering.domain.language.parse import parse
    from treering.domain.query import Query
    from treering.domain.schema import Schema
    from treering.errors import (
        BudgetExceeded,
        DamagedVault,
        DataError,
        EngineError,
        GuaranteeError,
        Halted,
        NewerVault,
        NotAVault,
        ParameterError,
        QueryError,
        SchemaError,
        TreeringError,
        VaultBusy,
        VaultError,
    )
    from treering.mechanisms.continual import ContinualHistogram
    from treering.mechanisms.pmwg import PMW, PMWG
    from treering.mechanisms.sparse import ATG, NATG, NSG
    from treering.schedulers.ermg import ERMG
    from treering.schedulers.improver import BBImprover
    from treering.schedulers.scheduler import BBScheduler, SmallDBG
    from treering.theory.plan import Plan, plan
    from treering.trusted.database import DroppedRows, GrowingDatabase
    from treering.vault.reader import VaultReader
    from treering.vault.vault import Vault
else:
    # Hidden from type checkers, which would otherwise take every misspelt name for a public one.

    _HOMES = {
        "treering.answer": ("Answer", "Guarantee"),
        "treering.boxes.answers": ("AnswersBox",),
        "treering.boxes.erm": ("ERM", "Model"),
        "treering.boxes.opendp": ("from_opendp",),
        "treering.boxes.histogram": ("HistogramBox",),
        "treering.boxes.marginals": ("MarginalsBox",),
        "treering.boxes.mwem": ("MWEM",),
        "treering.boxes.base": ("Box",),
        "treering.boxes.smalldb": ("SmallDB",),
        "treering.budget.promise": ("Promise",),
        "treering.domain.attribute": ("OTHER", "bins", "categories", "integers"),
        "treering.domain.language.parse": ("parse",),
        "treering.domain.query": ("Query",),
        "treering.domain.schema": ("Schema",),
        "treering.errors": (
            "BudgetExceeded",
            "DamagedVault",
            "DataError",
            "EngineError",
            "GuaranteeError",
            "Halted",
            "NewerVault",
            "NotAVault",
            "ParameterError",
            "QueryError",
            "SchemaError",
            "TreeringError",
            "VaultBusy",
            "VaultError",
        ),
        "treering.mechanisms.continual": ("ContinualHistogram",),
        "treering.mechanisms.pmwg": ("PMW", "PMWG"),
        "treering.mechanisms.sparse": ("ATG", "NATG", "NSG"),
        "treering.schedulers.ermg": ("ERMG",),
        "treering.schedulers.improver": ("BBImprover",),
        "treering.schedulers.scheduler": ("BBScheduler", "SmallDBG"),
        "treering.theory.plan": ("Plan", "plan"),
        "treering.trusted.database": ("DroppedRows", "GrowingDatabase"),
        "treering.vault.reader": ("VaultReader",),
        "treering.vault.vault": ("Vault",),
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
