"""ERMRings: a private model for each ring of new rows, every ring with the whole budget."""

from __future__ import annotations

import dataclasses
import math
import threading
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

from treering.answer import Guarantee
from treering.boxes.base import Progress, silent
from treering.boxes.erm import Model, dimension_of
from treering.budget.promise import Budget, Promise
from treering.domain.language.parse import Question, understand
from treering.domain.loss import Distance, HuberDistance, Loss, Squared
from treering.domain.problem import CellFeatures, Minimise, Problem, check_labels
from treering.errors import GuaranteeError, ParameterError, TreeringError
from treering.gate import Combined, Database, Event, Marked, Minimised, Span
from treering.params import Number, exact, probability
from treering.schedulers.epochs import Epoch
from treering.schedulers.learning import Learner, check_fits, needed_features, own_dimension
from treering.schedulers.tested import Quality, noise_for, quality, score_groups
from treering.theory.erm.rings import plan_ring, ring_share

RADIUS: Final = 16.0
"""The default radius of the ball of models. Models of classifiers rarely need more, and descent that stops in time
keeps shorter ones short: a larger radius costs little but in what is proven."""

RADII: Final[dict[type[Loss], float]] = {Squared: 4.0, Distance: 1.0, HuberDistance: 1.0}
"""The default radius for losses that need less: labels lie in [−1, 1], and a median within the points."""

FEWEST: Final = 1_000
"""A model is not tested on fewer rows, unless the next one is due."""


class ERMRings(Learner):
    """A model of the newest rows: trained again each time the database has grown by a factor, on the new rows alone.

    Rows that came between two models are a *ring*. A model is learnt from the rows of one ring, starting at the model
    before, which is public, and costs those rows only: so **every ring has the whole budget**, and models never wear
    out. It minimises the risk on the newest ring and, if rows are alike, on those to come; it follows a drift, where
    `ERMG` is about all rows that ever came.

    *Formal guarantee.* Privacy: all models ever released together are (epsilon, delta)-DP for databases that differ in
    one row, replaced, which keeps its arrival time: each row lies in one ring, and is charged for one run
    (``budget/rows.py``, ``budget/minimising.py``). Accuracy: with probability at least 1 − beta, for all models
    together, the mean loss of each over *the rows of its ring* is within its ``excess_risk`` of the least in the ball.
    (``theory/erm/rings.py`` says how steps are chosen, ``theory/erm/steps.py`` has the proofs.) Nothing is promised
    about rows of other rings.

    Nothing is released before the first `update`, which trains on all rows that there are. From then on models come as
    rows arrive, when the database has grown ``every``-fold since the last.

    - ``db``: a database, with ``features`` that map its cells to vectors and labels; or points, which have their own
    - ``loss``: the loss of an entry; squared loss is learnt from noisy moments, others by noisy descent (delta > 0)
    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that the excess risk of any model, ever, is above its bound
    - ``every``: the growth from one model to the next, above 1. At 2, the default, a ring is half of all rows; at 1.25
      models come three times as often, each from a fifth of the rows, and with two and a half times the noise
    - ``radius``: models are those with ‖θ‖ ≤ radius, for features in the unit ball; by default 16, for squared loss 4
      and for distances 1
    - ``dimension``, ``regularisation``, ``features``: as for `ERM`
    - ``validation``: the part of the budget, below ½, that tells how good models are: each is tested on the rows that
      came after it, before the next one learns from them (see `quality`). Over a database; 0: models are not tested
    - ``progress``: called for each model

    >>> import numpy as np
    >>> from treering.domain.loss import Logistic
    >>> from treering.trusted.database import GrowingPoints
    >>> points = GrowingPoints(2, "signs")
    >>> points.append(np.tile([[0.6, 0.0], [-0.6, 0.0]], (5_000, 1)), np.tile([1, -1], 5_000))
    10000
    >>> learner = ERMRings(points, Logistic(), epsilon=1.0, delta=1e-9)
    >>> learner.update().theta[0] > 2
    True
    >>> points.append(np.tile([[0.6, 0.0], [-0.6, 0.0]], (5_000, 1)), np.tile([1, -1], 5_000))
    20000
    >>> learner.model.rows, learner.left(20_000) < 1e-9 < learner.left(20_001)
    ((10000, 20000), True)
    """

    def __init__(
        self,
        db: Database,
        loss: Loss,
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        *,
        every: Number = 2.0,
        dimension: int | None = None,
        radius: float | None = None,
        regularisation: float = 0.0,
        features: CellFeatures | None = None,
        validation: Number = 0,
        progress: Progress | None = None,
    ) -> None:
        self._beta = float(probability(beta, "beta"))
        self._every = exact(every, "every")
        if self._every <= 1:
            raise ParameterError("every", f"must be above 1, the growth from one model to the next, not {every}")
        own = dimension_of(own_dimension(db, dimension, features), needed_features(db, features))
        ball = RADII.get(type(loss), RADIUS) if radius is None else radius
        self.problem = Problem(loss, own, ball, regularisation)
        """What is minimised."""
        if features is not None:
            check_labels(features.label_kind, loss)
        check_fits(db, self.problem, features)
        self._features = features
        self._tested_by = _part(validation, features)
        self._progress = progress or silent
        super().__init__(db, Promise.of(epsilon, delta))
        self._lock = threading.RLock()
        self._seen = 0
        self._edges: tuple[int, ...] = (0,)
        self._models: tuple[Model, ...] = ()
        self._tests: tuple[tuple[Combined, ...], ...] = ()
        self._catch_up()
        db.watch(self._grown)

    # -- models -------------------------------------------------------------------------------------------------------

    def update(self) -> Model:
        """The latest model; a new one is trained first if one is due. The first call trains the first one."""
        self._rows("an empirical risk needs at least one row")
        with self._lock:
            if self._due():
                self._train()
            elif self._testable():
                self._test()
        return self.model

    @property
    def model(self) -> Model:
        """The latest model that was released: free."""
        if not self._models:
            raise GuaranteeError("no model has been released yet: update() releases the first one")
        return self._models[-1]

    @property
    def models(self) -> tuple[Model, ...]:
        """All models that were released, one for each ring, the oldest first: free. What is computed from them, such as
        an average over rings, is public."""
        return self._models

    @property
    def quality(self) -> Quality | None:
        """Accuracy and AUC of the latest model that was tested, on rows that came after it, with their margins: free.

        A model is tested before the next one is trained, on all rows since; and half-way there, at `update`, on half of
        them. None: no model was tested yet.
        """
        tested = [(model, tests) for model, tests in zip(self._models, self._tests, strict=True) if tests]
        if not tested or self._features is None:
            return None
        return quality(tested[-1][0], self._features, tested[-1][1])

    @property
    def excess_risk_bound(self) -> float:
        """The proven bound on the latest model's excess risk, on the rows of its ring."""
        return self.model.excess_risk

    # -- public state and guarantees ----------------------------------------------------------------------------------

    @property
    def epochs(self) -> list[Epoch]:
        """One for each model."""
        total, pure = float(self._gate.budget.total), self._gate.budget.kind == "pure"
        epsilon, rho = (total, None) if pure else (None, total)
        return [
            Epoch(ring, model.size, epsilon, rho, ring_share(self._beta, ring), model.excess_risk)
            for ring, model in enumerate(self._models)
        ]

    @property
    def next_epoch(self) -> int | None:
        """The size at which the next model is trained; None before the first."""
        if not self._models:
            return None
        last = self._models[-1].size
        return max(last + 1, math.ceil(last * self._every))

    @property
    def state(self) -> tuple[tuple[tuple[int, int], tuple[float, ...]], ...]:
        """The public state: the rings, and their models."""
        return tuple((model.rows, model.theta) for model in self._models)

    @property
    def halted(self) -> bool:
        """False: every ring brings a budget of its own."""
        return False

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for the latest model, or for one that would be trained now."""
        size = self._rows()
        if self._models:
            alpha, rows = self.excess_risk_bound, self.model.rows
        else:
            alpha = plan_ring(self.problem, size, self._learning, ring_share(self._beta, 0)).alpha
            rows = (0, size)
        promise = self._promise
        return Guarantee(
            *(float(promise.epsilon), float(promise.delta), alpha, self._beta, size),
            "every model has an excess empirical risk of at most its own bound on the rows of its ring, all together; "
            f"alpha is that of the latest model, for the rows {rows[0] + 1:,} to {rows[1]:,}. Each row pays for one "
            "model",
        )

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`; with the latest model and the rows of its ring, if there is one."""
        found = super().describe()
        if self._models:
            found["model"]["rows"] = list(self.model.rows)
        epochs = [dataclasses.asdict(epoch) for epoch in self.epochs]
        if self._tested_by:
            found["quality"] = None if self.quality is None else dataclasses.asdict(self.quality)
        return {**found, "epochs": epochs, "next_epoch": self.next_epoch}

    def price(self, query: Question) -> Fraction:
        """What a model would cost the rows of its ring if it is due now, else 0."""
        understand(query, self._gate.schema)
        self._rows_to_share()
        return self._promise.budget.total if self._due() else Fraction(0)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        size = self._gate.size
        return self._begin() < size and (not self._models or size >= (self.next_epoch or 0))

    @property
    def _learning(self) -> Budget:
        """What a model costs the rows of its ring."""
        budget = self._promise.budget
        return Budget(budget.kind, budget.total * (1 - self._tested_by))

    def _begin(self, needed: Fraction | None = None) -> int:
        """Where the next ring begins: the first edge past the last ring whose next row can pay for a model, or what is
        ``needed``. (A run that was interrupted may have charged rows, and released nothing.)"""
        last = self._models[-1].size if self._models else 0
        least = self._learning.total if needed is None else needed
        return next((edge for edge in self._edges if edge >= last and self._gate.left(edge + 1) >= least), last)

    def _testable(self) -> bool:
        """Whether the latest model is to be tested now, though the next one is not due."""
        if not self._tested_by or not self._models:
            return False
        half = ((self.next_epoch or 0) - self._models[-1].size) / 2
        return self._gate.size - self._begin(self._gate.budget.total) >= max(FEWEST, half)

    def _grown(self) -> None:
        """Called when the database has grown: train the model that is due. An error is left to the next `update`."""
        if self._models and self._gate.size >= (self.next_epoch or 0):
            with suppress(Exception):
                self.update()

    def _train(self) -> None:
        """Learn a model from the newest ring, in one durable step; then take it up."""
        ring = len(self._models)
        before = self._models[-1].theta if self._models else None
        try:
            with self._gate.transaction():
                start, size = self._begin(), self._gate.size
                name = f"model {ring + 1}, of the rows {start + 1:,} to {size:,}"
                self._progress(0.0, f"{name}: learning")
                chance = ring_share(self._beta, ring)
                planned = plan_ring(self.problem, size - start, self._learning, chance, start=before)
                if size not in self._edges:
                    self._gate.mark()  # First: should the run be interrupted, the next ring can begin here.
                self._measure(size)
                self._gate.minimise(Minimise(self.problem, planned.method, self._features), (start, size))
        finally:
            self._catch_up()
        self._progress(1.0, f"{name}: learnt")

    def _test(self) -> None:
        """Test the latest model on the rows since, in one durable step."""
        try:
            with self._gate.transaction():
                size = self._gate.size
                if size not in self._edges:
                    self._gate.mark()
                self._measure(size)
        finally:
            self._catch_up()

    def _measure(self, size: int) -> None:
        """Count how the latest model does on the rows that it was not tested on, if there are any, and it is to be."""
        if not self._tested_by or not self._models or self._features is None:
            return
        start = self._begin(self._gate.budget.total)
        noise = noise_for(Budget(self._gate.budget.kind, self._gate.budget.total * self._tested_by))
        if start < size:
            self._gate.combine(score_groups(self._models[-1], self._features), [Span(start, size, 1)], noise)

    def _catch_up(self) -> None:
        """Take up the events that are on record and were not taken up yet."""
        history = self._gate.history
        for event in history[self._seen :]:
            self._follow(event)
        self._seen = len(history)

    def _follow(self, event: Event) -> None:
        if isinstance(event, Marked):
            self._edges = (*self._edges, event.size)
        elif isinstance(event, Minimised):
            if event.problem != self.problem:
                raise TreeringError("the models on record are of another problem")
            chance = ring_share(self._beta, len(self._models))
            self._models = (*self._models, Model(self._gate.schema, event, chance))
            self._tests = (*self._tests, ())
        elif isinstance(event, Combined):
            self._tests = (*self._tests[:-1], (*self._tests[-1], event))


def _part(validation: Number, features: CellFeatures | None) -> Fraction:
    """The part of the budget for tests."""
    if not isinstance(validation, bool) and validation == 0:
        return Fraction(0)
    part = exact(validation, "validation")
    if part >= Fraction(1, 2):
        raise ParameterError("validation", f"must be 0 or a part of the budget below 1/2, not {validation}")
    if features is None or features.label_kind != "signs":
        raise ParameterError("validation", "needs a database, and features whose target is a predicate")
    return part
