"""PUBLIC: the privacy budget: promises, costs and the filter that composes them, in exact rational arithmetic.

promises     Promise, Budget
costs        Cost, Filter: what an operation costs, and whether it still fits
conversions  epsilon_of, rho_of, delta_of: between zCDP and (epsilon, delta)
"""

from treering.lazy import attach

TYPE_CHECKING = False

if TYPE_CHECKING:
    from treering.budget.convert import delta_of as delta_of, epsilon_of as epsilon_of, rho_of as rho_of
    from treering.budget.cost import Cost as Cost
    from treering.budget.promise import Budget as Budget, Filter as Filter, Promise as Promise
else:
    _HOMES = {
        "convert": ("delta_of", "epsilon_of", "rho_of"),
        "cost": ("Cost",),
        "promise": ("Budget", "Filter", "Promise"),
    }
    __getattr__, __dir__ = attach(__name__, _HOMES)
