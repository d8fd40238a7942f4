"""Differential privacy for databases that never stop growing.

Everything public is here; a name is imported from its module when it is first used, so ``import treering`` is cheap.

    schema     Schema, categories, integers, bins, numbers, dates, ABOVE, BELOW, OTHER
    questions  Query, parse
    data       GrowingDatabase, DroppedRows; GrowingPoints: rows of real-valued features, for learning
    durable    Vault, VaultReader: a growing database in a folder, with its promise; RowFile: a file to append
    remote     connect, Client: the same on a server; agents: `treering mcp`
    answers    Rings: sharp answers, paid for once and kept current; PMW, PMWG: adaptive queries without end; ATG, NATG,
               NSG: sparse vector; ContinualHistogram: few cells; Answer, Estimate, Guarantee
    boxes      Box; AnswersBox, HistogramBox, MarginalsBox, MWEM, SmallDB, from_opendp: static private algorithms
    schedulers BBScheduler, BBImprover, SmallDBG: a box, rerun as the data grow
    learning   ERMRings: a model of the newest rows; ERMG: of all rows; ERM, once; Model. They minimise a Logistic,
               RobustLogistic, HuberHinge, Squared, Distance or HuberDistance loss, over points or over cells with
               CellFeatures; treering.learn: scikit-learn estimators
    planning   plan, Plan: which of them, for your parameters
    showing    plot: a released table as a chart, with its margins
    promises   Promise
    errors     TreeringError and everything below it
    modules    audit, budget, domain, learn, theory
"""

TYPE_CHECKING = False  # as typing has it, whose import would take longer than all the rest of this module

__version__ = "0.1.0"

__all__ = [
    "ABOVE",
    "ATG",
    "BELOW",
    "ERM",
    "ERMG",
    "MWEM",
    "NATG",
    "NSG",
    "OTHER",
    "PMW",
    "PMWG",
    "AccessDenied",
    "Answer",
    "AnswersBox",
    "BBImprover",
    "BBScheduler",
    "Box",
    "BudgetExceeded",
    "CellFeatures",
    "Client",
    "ContinualHistogram",
    "DamagedVault",
    "DataError",
    "Dearer",
    "Distance",
    "DroppedRows",
    "ERMRings",
    "EngineError",
    "Estimate",
    "GrowingDatabase",
    "GrowingPoints",
    "Guarantee",
    "GuaranteeError",
    "Halted",
    "HistogramBox",
    "HuberDistance",
    "HuberHinge",
    "KeyUsed",
    "Logistic",
    "MarginalsBox",
    "Model",
    "NotAVault",
    "ParameterError",
    "Plan",
    "Price",
    "Promise",
    "Query",
    "QueryError",
    "QuotaExceeded",
    "Rings",
    "RobustLogistic",
    "RowFile",
    "Schema",
    "SchemaError",
    "ServiceError",
    "SmallDB",
    "SmallDBG",
    "Squared",
    "TimeLimit",
    "TreeringError",
    "UnknownFormat",
    "Vault",
    "VaultBusy",
    "VaultError",
    "VaultReader",
    "audit",
    "bins",
    "budget",
    "categories",
    "connect",
    "dates",
    "domain",
    "from_opendp",
    "integers",
    "learn",
    "numbers",
    "parse",
    "plan",
    "plot",
    "theory",
]

if TYPE_CHECKING:
    from treering import audit, budget, domain, learn, theory
    from treering.answer import Answer, Estimate, Guarantee, Price
    from treering.boxes.answers import AnswersBox
    from treering.boxes.base import Box
    from treering.boxes.erm import ERM, Model
    from treering.boxes.histogram import HistogramBox
    from treering.boxes.marginals import MarginalsBox
    from treering.boxes.mwem import MWEM
    from treering.boxes.opendp import from_opendp
    from treering.boxes.smalldb import SmallDB
    from treering.budget.promise import Promise
    from treering.chart import plot
    from treering.client import Client, connect
    from treering.domain.attribute import ABOVE, BELOW, OTHER, bins, categories, integers
    from treering.domain.calendar import dates
    from treering.domain.language.parse import parse
    from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, RobustLogistic, Squared
    from treering.domain.numeric import numbers
    from treering.domain.problem import CellFeatures
    from treering.domain.query import Query
    from treering.domain.schema import Schema
    from treering.errors import (
        AccessDenied,
        BudgetExceeded,
        DamagedVault,
        DataError,
        Dearer,
        EngineError,
        GuaranteeError,
        Halted,
        KeyUsed,
        NotAVault,
        ParameterError,
        QueryError,
        QuotaExceeded,
        SchemaError,
        ServiceError,
        TimeLimit,
        TreeringError,
        UnknownFormat,
        VaultBusy,
        VaultError,
    )
    from treering.mechanisms.continual import ContinualHistogram
    from treering.mechanisms.pmwg import PMW, PMWG
    from treering.mechanisms.rings import Rings as Rings
    from treering.mechanisms.sparse import ATG, NATG, NSG
    from treering.rowfile import RowFile
    from treering.schedulers.ermg import ERMG
    from treering.schedulers.ermrings import ERMRings
    from treering.schedulers.improver import BBImprover
    from treering.schedulers.scheduler import BBScheduler, SmallDBG
    from treering.theory.plan import Plan, plan
    from treering.trusted.store import DroppedRows, GrowingDatabase, GrowingPoints
    from treering.vault.reader import VaultReader
    from treering.vault.vault import Vault
else:
    # Hidden from type checkers, which would otherwise take every misspelt name for a public one.
    from treering.lazy import attach

    _HOMES = {
        "answer": ("Answer", "Estimate", "Guarantee", "Price"),
        "boxes.answers": ("AnswersBox",),
        "boxes.erm": ("ERM", "Model"),
        "boxes.opendp": ("from_opendp",),
        "boxes.histogram": ("HistogramBox",),
        "boxes.marginals": ("MarginalsBox",),
        "boxes.mwem": ("MWEM",),
        "boxes.base": ("Box",),
        "boxes.smalldb": ("SmallDB",),
        "budget.promise": ("Promise",),
        "chart": ("plot",),
        "client": ("Client", "connect"),
        "domain.attribute": ("ABOVE", "BELOW", "OTHER", "bins", "categories", "integers"),
        "domain.calendar": ("dates",),
        "domain.language.parse": ("parse",),
        "domain.loss": ("Distance", "HuberDistance", "HuberHinge", "Logistic", "RobustLogistic", "Squared"),
        "domain.numeric": ("numbers",),
        "domain.problem": ("CellFeatures",),
        "domain.query": ("Query",),
        "domain.schema": ("Schema",),
        "errors": (
            "AccessDenied",
            "BudgetExceeded",
            "DamagedVault",
            "DataError",
            "Dearer",
            "EngineError",
            "GuaranteeError",
            "Halted",
            "KeyUsed",
            "NotAVault",
            "ParameterError",
            "QueryError",
            "QuotaExceeded",
            "SchemaError",
            "ServiceError",
            "TimeLimit",
            "TreeringError",
            "UnknownFormat",
            "VaultBusy",
            "VaultError",
        ),
        "mechanisms.continual": ("ContinualHistogram",),
        "mechanisms.pmwg": ("PMW", "PMWG"),
        "mechanisms.rings": ("Rings",),
        "mechanisms.sparse": ("ATG", "NATG", "NSG"),
        "rowfile": ("RowFile",),
        "schedulers.ermg": ("ERMG",),
        "schedulers.ermrings": ("ERMRings",),
        "schedulers.improver": ("BBImprover",),
        "schedulers.scheduler": ("BBScheduler", "SmallDBG"),
        "theory.plan": ("Plan", "plan"),
        "trusted.store": ("DroppedRows", "GrowingDatabase", "GrowingPoints"),
        "vault.reader": ("VaultReader",),
        "vault.vault": ("Vault",),
        "audit": (),
        "budget": (),
        "domain": (),
        "learn": (),
        "theory": (),
    }
    __getattr__, __dir__ = attach(__name__, _HOMES)
    _PROVIDED = {"query_text": "treering.domain.text:text", "query_of_text": "treering.domain.language.parse:parse"}
