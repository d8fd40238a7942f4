"""PMWG, private multiplicative weights for growing databases: its theorems as functions.

`paper` has the paper's theorems with their constants; `tight` our calibration: the potential, confidence over time and
one guarded run; `lifetime` the cost of a whole life, and of PMW on a database that does not grow.
"""

from treering.theory.pmwg.lifetime import (
    ForeverPlan,
    QueryBound,
    at_most,
    forever,
    paper_queries,
    static,
    static_size,
    tight_alpha,
)
from treering.theory.pmwg.paper import (
    alpha,
    alpha_start,
    check_paper,
    hard_bound,
    log_query_budget,
    noise,
    privacy_loss,
    query_budget,
    query_rate,
)
from treering.theory.pmwg.tight import (
    DEFAULT_SHARE,
    Guard,
    UntilSpent,
    growth_potential,
    growth_rate,
    hard_decrease,
    hard_target,
    kl,
    query_beta,
    query_tail,
    run_beta,
    run_scales,
    run_tail,
    until_spent,
)

__all__ = [
    "DEFAULT_SHARE",
    "ForeverPlan",
    "Guard",
    "QueryBound",
    "UntilSpent",
    "alpha",
    "alpha_start",
    "at_most",
    "check_paper",
    "forever",
    "growth_potential",
    "growth_rate",
    "hard_bound",
    "hard_decrease",
    "hard_target",
    "kl",
    "log_query_budget",
    "noise",
    "paper_queries",
    "privacy_loss",
    "query_beta",
    "query_budget",
    "query_rate",
    "query_tail",
    "run_beta",
    "run_scales",
    "run_tail",
    "static",
    "static_size",
    "tight_alpha",
    "until_spent",
]
