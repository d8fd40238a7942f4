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
    from treering.domain.attribute import (
        ABOVE as ABOVE,
        BELOW as BELOW,
        OTHER as OTHER,
        Attribute as Attribute,
        Bins as Bins,
        Categories as Categories,
        Integers as Integers,
        bins as bins,
        categories as categories,
        integers as integers,
    )
    from treering.domain.calendar import DatePart as DatePart, Dates as Dates, dates as dates
    from treering.domain.language.measures import (
        Count as Count,
        Mean as Mean,
        Quantile as Quantile,
        Release as Release,
        Request as Request,
        Sum as Sum,
    )
    from treering.domain.language.parse import parse as parse
    from treering.domain.loss import (
        Distance as Distance,
        HuberHinge as HuberHinge,
        Logistic as Logistic,
        Loss as Loss,
        Squared as Squared,
    )
    from treering.domain.numeric import Numbers as Numbers, numbers as numbers
    from treering.domain.problem import CellFeatures as CellFeatures, Problem as Problem
    from treering.domain.query import Query as Query
    from treering.domain.schema import Schema as Schema
    from treering.domain.workload import (
        marginals as marginals,
        prefixes as prefixes,
        random_conjunctions as random_conjunctions,
        ranges as ranges,
    )
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
