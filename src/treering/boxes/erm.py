"""ERM: private empirical risk minimisation, run once, and the `Model` that it releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from treering.arrays import Floats
from treering.boxes.base import Progress, Release, SchemaBox, by_steps, silent
from treering.budget.promise import Budget
from treering.domain.loss import Loss
from treering.domain.problem import FEATURE_UNIT, CellFeatures, Method, Minimise, OneHot, Problem, Start, check_labels
from treering.domain.query import Query
from treering.domain.schema import Schema
from treering.domain.text import identifier, set_text
from treering.errors import GuaranteeError, ParameterError, QueryError, SchemaError, TreeringError
from treering.gate import Minimised
from treering.params import probability, whole
from treering.protocols import Gate
from treering.theory.ageing import aged_bound
from treering.theory.erm.methods import NET_CANDIDATES, Choice, Choosing, Descending, Perturbing
from treering.theory.erm.steps import bound
from treering.words import counted

How: TypeAlias = Literal["auto", "perturbation", "descent", "net"]

PASSES: Final = 256
"""The most passes over the data in a run; it usually takes far fewer (see `treering.theory.erm.methods`)."""

FEW: Final = 5
FEW_OVER_CELLS: Final = 64
"""The number of passes that descent may always make in a rerun: over points, and over cells, where a pass is short."""


class ERM(SchemaBox):
    """Private empirical risk minimisation: the mean loss, plus regularisation/2·‖θ‖², over the L2 ball of ``radius``.

    Formal guarantee. Neighbours replace one row. A run is ε-DP or ρ-zCDP, as its budget says: it is one operation of
    the gate, whose cost is derived in ``budget/minimising.py``. With probability at least 1 − beta the excess risk of
    the model is at most its own ``excess_risk``, and that at most ``alpha(size, budget, beta)``; proofs in
    ``theory/erm/steps.py``. This is an excess *empirical* risk, in the loss's own unit: it may be above 1, and says
    nothing from `worst` on.

    - ``loss``: the loss of an entry (a feature vector and its label) under a model θ
    - ``dimension``: the number of features of a point; over a database it follows from ``features``
    - ``radius``: the models are those with ‖θ‖ ≤ radius
    - ``regularisation``: the weight λ of λ/2·‖θ‖² in the objective
    - ``features``: how the cells of a database become vectors and labels; None over points, which have their own
    - ``method``: "perturbation" (smooth losses; pure or zCDP), "descent" (any loss; zCDP), "net" (any loss, at most 3
      dimensions; pure or zCDP), or "auto": at each run the one with the least alpha
    - ``passes``: the most passes over the data in a run. Descent and the solver of output perturbation need far fewer,
      except at large sizes (`treering.theory.erm.methods`). A net needs one pass for each candidate; over cells, where
      a pass is short, it may always have 4,096 candidates. Output perturbation obeys the scaling law of boxes as far as
      its passes reach
    - ``rerun``: whether there will be many runs, as under a schedule: for smooth losses descent then makes at most
      ∛size/5 passes, or 5 of them (more only if that makes the bound three times as good), or 64 over cells, where a
      rerun's time then hardly depends on the number of rows

    The solver of output perturbation starts from the last model that the gate released for the same problem, a public
    value. Its number of passes is fixed beforehand, for the worst start.

    >>> import treering as tr
    >>> from treering.domain.loss import Logistic
    >>> schema = tr.Schema({"origin": tr.categories("EWR", "JFK"), "late": tr.categories("no", "yes")})
    >>> db = tr.GrowingDatabase(schema)
    >>> db.append([{"origin": "EWR", "late": "yes"}] * 40_000 + [{"origin": "JFK", "late": "no"}] * 60_000)
    100000
    >>> late = CellFeatures(schema, ["origin"], [[1.0, 0.0], [0.0, 1.0]], tr.parse("late = 'yes'", schema))
    >>> model = ERM(Logistic(), radius=4.0, features=late).release(db, epsilon=1.0, delta=1e-9, beta=1e-9)
    >>> model.theta[0] > 1 and model.theta[1] < -1
    True
    """

    def __init__(
        self,
        loss: Loss,
        dimension: int | None = None,
        *,
        radius: float = 1.0,
        regularisation: float = 0.0,
        features: CellFeatures | None = None,
        method: How = "auto",
        passes: int = PASSES,
        rerun: bool = False,
    ) -> None:
        super().__init__()
        if features is not None and not isinstance(features, CellFeatures):
            raise ParameterError("features", f"must be CellFeatures, not {type(features).__name__}")
        self.problem = Problem(loss, dimension_of(dimension, features), radius, regularisation)
        """What is minimised."""
        if features is not None:
            check_labels(features.label_kind, loss)
        self.features = features
        """How cells become vectors and labels; None over points."""
        self.method: How = method
        """The method of minimisation."""
        most = whole(passes, "passes")
        candidates = most if features is None else max(most, NET_CANDIDATES)
        few = None if not rerun else FEW if features is None else FEW_OVER_CELLS
        self._choices = _choices(self.problem, method, most, candidates, few)
        pure = any(choice.kind == "pure" for choice in self._choices)
        self.kind = "pure" if pure else "zcdp"

    @property
    def worst(self) -> float:
        """The largest excess risk of any model in the ball: at most Lipschitz constant · diameter (`worst_risk`)."""
        return worst_risk(self.problem)

    @property
    def staleness(self) -> float:
        """The largest excess risk of a model on rows that came after it: `worst`."""
        return self.worst

    def alpha(self, size: int, budget: Budget, beta: float) -> float:
        """The bound on the excess risk of a run's model that holds except with probability beta."""
        _ = self.schema
        rows, chance = whole(size, "size"), float(probability(beta, "beta"))
        return min(choice.alpha(rows, budget, chance) for choice in self._for(budget))

    def run(self, gate: Gate, budget: Budget, alpha: float, beta: float, progress: Progress = silent) -> Model:
        """Minimise: one operation of the gate, which costs the budget."""
        self._check(gate)
        chance = float(probability(beta, "beta"))
        size = gate.size
        choice = min(self._for(budget), key=lambda each: each.alpha(size, budget, chance))
        request = Minimise(
            self.problem, choice.method(size, budget, chance, _last_model(gate, self.problem)), self.features
        )
        doing = f"learning by {type(request.method).__name__}"
        progress(0.0, doing)
        event = gate.minimise(request, progress=by_steps(progress, doing))
        progress(1.0, "learnt")
        if event.problem != self.problem:
            raise TreeringError("the run is about another problem than is on record")
        return Model(self.schema, event, chance)

    def _prepare(self, schema: Schema) -> None:
        if self.features is None:
            if schema.cells > 1:
                raise ParameterError(
                    "features", "must say how the schema's cells become vectors: use CellFeatures (public, not of rows)"
                )
        elif self.features.schema != schema:
            raise SchemaError("the features of this ERM are about another schema")

    def _for(self, budget: Budget) -> list[Choice]:
        """The methods that a budget of this kind can pay for."""
        if budget.kind == "zcdp":
            return self._choices
        pure = [choice for choice in self._choices if choice.kind == "pure"]
        if not pure:
            raise ParameterError("budget", f"must be zCDP (delta > 0) for descent: {_PURE}")
        return pure


_PURE: Final = "output perturbation (smooth losses) and the net (at most 3 dimensions) are the pure ones"


def dimension_of(dimension: int | None, features: CellFeatures | None) -> int:
    """The dimension that was given, or that of the features."""
    if features is None:
        if dimension is None:
            raise ParameterError("dimension", "must be given without features: how many numbers a point has")
        return dimension
    if dimension is not None and dimension != features.dimension:
        raise ParameterError("dimension", f"must be that of the features, {features.dimension}, not {dimension}")
    return features.dimension


def _choices(problem: Problem, method: str, passes: int, candidates: int, few: int | None) -> list[Choice]:
    """The minimisers that ``method`` stands for and that the problem allows."""
    makers: dict[str, Callable[[], Choice]] = {
        "perturbation": lambda: Perturbing(problem, passes),
        "descent": lambda: Descending(problem, passes, few),
        "net": lambda: Choosing(problem, candidates),
    }
    if method in makers:
        return [makers[method]()]
    if method != "auto":
        raise ParameterError("method", f'must be "auto", "perturbation", "descent" or "net", not {method!r}')
    made = []
    for make in makers.values():
        try:
            made.append(make())
        except (ParameterError, GuaranteeError):
            continue
    return made


def _last_model(gate: Gate, problem: Problem) -> Start:
    """The last model that the gate released for this problem, or None. (A replayed run needs no start.)"""
    for event in reversed(gate.history):
        if isinstance(event, Minimised) and event.problem == problem:
            return event.theta
    return None


# -- the released model ------------------------------------------------------------------------------------------------


NO_ANSWERS: Final = "a model answers no queries: use its theta, or ask a mechanism that answers"


class Model(Release):
    """A released model θ in the ball, whose empirical risk on the rows that it was learnt from is near the least.

    Formal guarantee: with probability at least 1 − beta (that of its run) its excess risk is at most `excess_risk`,
    which is never above `worst_risk`.
    """

    def __init__(self, schema: Schema, event: Minimised, beta: float) -> None:
        super().__init__(schema, event.size)
        self.rows: tuple[int, int] = event.rows or (0, event.size)
        """The rows that it was learnt from: those after the first of these positions, up to the second, but for `held`
        of them."""
        self.held: int = event.held or 0
        """How many of these rows, drawn at random, were held out to test models."""
        self.problem: Problem = event.problem
        """What was minimised."""
        self.method: Method = event.method
        """The method of minimisation, with its noise."""
        self.theta: tuple[float, ...] = event.theta
        """The coefficients θ."""
        self.excess_risk: float = min(
            bound(event.problem, event.method, event.entries, beta), worst_risk(event.problem)
        )
        """The bound on how much its risk exceeds the least in the ball, on the rows that it was learnt from."""

    def shares(self, queries: Sequence[Query]) -> tuple[Floats, Floats]:
        """Refused: a model answers no queries."""
        if queries:
            raise QueryError(NO_ANSWERS)
        return np.zeros(0), np.zeros(0)

    def predictions(self, features: Floats) -> Floats:
        """⟨theta, x⟩ for each row x of ``features``, on the same scale as the features that the model was trained on.

        Over a database these are ``features.vectors_of(rows)``. If it is above 0, the label 1 is more likely than −1.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.theta):
            raise ParameterError(
                "features", f"must be rows of {counted(len(self.theta), 'number')}, as those it was trained on"
            )
        return np.asarray(rows @ np.array(self.theta))

    def weights(self, features: CellFeatures) -> dict[str, float]:
        """What each value of each attribute adds to a prediction, by its condition as text; for one-hot features.

        A prediction is the intercept plus one weight for each attribute.
        """
        if features.schema != self.schema or features.dimension != len(self.theta):
            raise ParameterError("features", "must be those that the model was trained on")
        if features.hot is None:
            raise ParameterError("features", "must be made by CellFeatures.one_hot for weights to have words")
        return dict(_weights(self.theta, features.hot, self.schema, features.attributes))

    def aged(self, size: int) -> float:
        """The excess risk on the database of a later size: (t/τ)·excess_risk + (1−t/τ)·worst.

        The objective at size τ is t/τ parts of that at size t, and 1 − t/τ parts of that of the new rows alone, where
        no model of the ball is worse than another by more than `worst_risk`.
        """
        fresh = min(1.0, self.size / size)
        return aged_bound(self.excess_risk, fresh, centred=False, staleness=worst_risk(self.problem))

    def __repr__(self) -> str:
        trained = f"{counted(len(self.theta), 'coefficient')}; {counted(self.size, 'row')}"
        return f"Model({trained}; excess risk at most {self.excess_risk:.3g})"


def worst_risk(problem: Problem) -> float:
    """The most by which the objective of one model in the ball exceeds that of another, on any data.

    Lipschitz constant times diameter, or the width of the loss's range if that is less: an entry's loss less that of
    θ = 0 lies within `Loss.range` at every model (it is widest at the radius), so the losses of two models differ by no
    more than its width, and their regularisers by λR²/2. For logistic loss the width is R.
    """
    low, high = problem.loss.range(np.array([problem.radius]))
    width = float(high[0] - low[0]) + problem.regularisation * problem.radius**2 / 2
    return min(problem.whole_lipschitz * 2 * problem.radius, width * (1 + 2.0**-40))


def _weights(
    theta: Sequence[float], hot: OneHot, schema: Schema, positions: tuple[int, ...]
) -> Iterator[tuple[str, float]]:
    """What each value adds to a prediction of the model ``theta``, with its condition in words."""
    scaled = (np.array(theta) * (hot.unit / FEATURE_UNIT)).tolist()
    if hot.intercept:
        yield "intercept", scaled[-1]
    for start, position in zip(hot.starts, positions, strict=True):
        name = schema.names[position]
        for code, flags in enumerate(np.eye(schema.shape[position], dtype=bool)):
            words = identifier(name) if len(flags) == 1 else set_text(name, schema.attributes[name], flags)
            yield words, scaled[start + code]
