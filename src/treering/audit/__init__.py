"""Statistical attacks on our own mechanisms: what they find is a lower bound on epsilon, with a stated confidence.

lower_bound, audit     tell two neighbouring streams apart by what a mechanism releases
Stream, grow, …        neighbouring streams, and the database that grows along one
"""

from treering.audit.bounds import Audit, audit, clopper_pearson_lower, clopper_pearson_upper, lower_bound
from treering.audit.neighbours import Stream, grow, neighbour, random_neighbours, worst_pair

__all__ = [
    "Audit",
    "Stream",
    "audit",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "grow",
    "lower_bound",
    "neighbour",
    "random_neighbours",
    "worst_pair",
]
