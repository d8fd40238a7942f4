"""Statistical attacks on mechanisms, ours or yours: each finds a lower bound on epsilon, with a stated confidence.

- `lower_bound`, `audit`: tell two neighbouring streams apart by what a mechanism releases
- `Stream`, `neighbour`, `random_neighbours`, `worst_pair`: neighbouring streams
- `grow`: a database that grows along a stream
- `clopper_pearson_lower`, `clopper_pearson_upper`: exact binomial confidence bounds
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
