"""PUBLIC: the finite universe of cells, queries about it, and problems of private learning over it.

attributes  Attribute, Bins, Categories, DatePart, Dates, Integers, Numbers; bins, categories, dates, integers, numbers
            make them; ABOVE, BELOW, OTHER
schema      Schema
questions   Query, parse
measures    Request: Count, Sum, Mean and Quantile of groups; Release: the estimates that answer one
workloads   marginals, ranges, prefixes, random_conjunctions: families of queries
learning    Loss, Distance, HuberHinge, Logistic, Squared; CellFeatures, Problem
"""

from treering.lazy import attach

TYPE_CHECKING = False

if TYPE_CHECKING:
    from treering.domain.attribute import ABOVE as ABOVE
    from treering.domain.attribute import BELOW as BELOW
    from treering.domain.attribute import OTHER as OTHER
    from treering.domain.attribute import Attribute as Attribute
    from treering.domain.attribute import Bins as Bins
    from treering.domain.attribute import Categories as Categories
    from treering.domain.attribute import Integers as Integers
    from treering.domain.attribute import bins as bins
    from treering.domain.attribute import categories as categories
    from treering.domain.attribute import integers as integers
    from treering.domain.calendar import DatePart as DatePart
    from treering.domain.calendar import Dates as Dates
    from treering.domain.calendar import dates as dates
    from treering.domain.language.measures import Count as Count
    from treering.domain.language.measures import Mean as Mean
    from treering.domain.language.measures import Quantile as Quantile
    from treering.domain.language.measures import Release as Release
    from treering.domain.language.measures import Request as Request
    from treering.domain.language.measures import Sum as Sum
    from treering.domain.language.parse import parse as parse
    from treering.domain.loss import Distance as Distance
    from treering.domain.loss import HuberHinge as HuberHinge
    from treering.domain.loss import Logistic as Logistic
    from treering.domain.loss import Loss as Loss
    from treering.domain.loss import Squared as Squared
    from treering.domain.numeric import Numbers as Numbers
    from treering.domain.numeric import numbers as numbers
    from treering.domain.problem import CellFeatures as CellFeatures
    from treering.domain.problem import Problem as Problem
    from treering.domain.query import Query as Query
    from treering.domain.schema import Schema as Schema
    from treering.domain.workload import marginals as marginals
    from treering.domain.workload import prefixes as prefixes
    from treering.domain.workload import random_conjunctions as random_conjunctions
    from treering.domain.workload import ranges as ranges
else:
    _HOMES = {
        "attribute": (
            *("ABOVE", "BELOW", "OTHER", "Attribute", "Bins", "Categories", "Integers"),
            *("bins", "categories", "integers"),
        ),
        "calendar": ("DatePart", "Dates", "dates"),
        "language.parse": ("parse",),
        "loss": ("Distance", "HuberHinge", "Logistic", "Loss", "Squared"),
        "language.measures": ("Count", "Mean", "Quantile", "Release", "Request", "Sum"),
        "numeric": ("Numbers", "numbers"),
        "problem": ("CellFeatures", "Problem"),
        "query": ("Query",),
        "schema": ("Schema",),
        "workload": ("marginals", "prefixes", "random_conjunctions", "ranges"),
    }
    __getattr__, __dir__ = attach(__name__, _HOMES)
