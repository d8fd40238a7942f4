"""ERMRings: a private model for each ring of new rows, every ring with the whole budget."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import Any, Final

from treering.answer import Guarantee
from treering.boxes.base import Progress, by_steps, silent
from treering.boxes.erm import Model, dimension_of
from treering.budget.promise import Budget, Promise
from treering.domain.loss import Distance, HuberDistance, Loss, Squared
from treering.domain.problem import CellFeatures, Minimise, Problem, check_labels
from treering.errors import GuaranteeError, ParameterError, TreeringError
from treering.gate import Event, Marked, Minimised, Tallied
from treering.params import Number, exact, probability
from treering.protocols import Database
from treering.schedulers.epochs import Epoch
from treering.schedulers.learning import Learner, check_fits, needed_features, own_dimension
from treering.schedulers.tested import Error, Quality, noise_for, tallies, told
from treering.theory.erm.methods import Planned
from treering.theory.erm.rings import plan_ring, ring_share

RADIUS: Final = 16.0
"""The default radius of the ball of models. Models of classifiers rarely need more, and descent that stops in time
keeps shorter ones short: a larger radius costs little but in what is proven."""

RADII: Final[dict[type[Loss], float]] = {Squared: 4.0, Distance: 1.0, HuberDistance: 1.0}
"""The default radius for losses that need less: labels lie in [−1, 1], and a median within the points."""

MOST_HELD: Final = 10_000
"""No more rows of a ring are held out: they tell accuracy to within 1%, chance included."""


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
    - ``validation``: the part of each ring's rows, below ½, that is held out to tell how good models are (see `quality`
      and `quality_later`); at most 10,000 rows, drawn at random. A model learns from the others, with the whole budget:
      at 0.1 with a ninth more noise. 0: models are not tested
    - ``progress``: called at each step of a model

    >>> import numpy as np
    >>> from treering.domain.loss import Logistic
    >>> from treering import GrowingPoints
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
        self._tested_by = _part(validation)
        self.progress: Progress = progress or silent
        """What is called at each step of a model."""
        super().__init__(db, Promise.of(epsilon, delta))
        self._lock = threading.RLock()
        self._seen = 0
        self._edges: tuple[int, ...] = (0,)
        self._models: tuple[Model, ...] = ()
        self._tests: tuple[tuple[Tallied, ...], ...] = ()
        self._catch_up()
        db.watch(self._grown)

    # -- models -------------------------------------------------------------------------------------------------------

    def update(self) -> Model:
        """The latest model; a new one is trained first if one is due. The first call trains the first one."""
        self._rows("an empirical risk needs at least one row")
        with self._lock:
            if self._due():
                self._train()
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
    def quality(self) -> Quality | Error | None:
        """How good the latest model is, on the rows of its ring that were held out, with margins: free.

        None: models are not tested, or the process ended between this one and its test.
        """
        return self._told(len(self._models) - 1, latest=True)

    @property
    def quality_later(self) -> Quality | Error | None:
        """How good the model before the latest is on the held-out rows of the ring that came after it: free. Less than
        its own `quality` was: rows have changed since. None: there is no such test yet."""
        return self._told(len(self._models) - 1, latest=False)

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
        return math.ceil(self._models[-1].size * self._every) if self._models else None

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
            alpha = self._plan(size - self._to_hold(size)).alpha
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
            tests = {"quality": self.quality, "quality_later": self.quality_later}
            found |= {name: None if each is None else dataclasses.asdict(each) for name, each in tests.items()}
        return {**found, "epochs": epochs, "next_epoch": self.next_epoch}

    @property
    def update_price(self) -> Fraction:
        """See `Learner.update_price`."""
        self._rows_to_share()
        return self._promise.budget.total if self._due() else Fraction(0)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        size, due = self._gate.size, self.next_epoch
        return self._begin() < size and (due is None or size >= due)

    def _begin(self) -> int:
        """Where the next ring begins: the first edge past the last ring whose next row can pay for a model. (A run that
        was interrupted may have charged rows, and released nothing.)"""
        last, least = self._models[-1].size if self._models else 0, self._promise.budget.total
        return next((edge for edge in self._edges if edge >= last and self._gate.left(edge + 1) >= least), last)

    def _to_hold(self, rows: int) -> int:
        """How many rows of a ring are held out."""
        return min(MOST_HELD, int(rows * self._tested_by))

    def _plan(self, rows: int) -> Planned:
        """The minimiser for a ring of so many rows to learn from."""
        before = self._models[-1].theta if self._models else None
        chance = ring_share(self._beta, len(self._models))
        return plan_ring(self.problem, rows, self._promise.budget, chance, start=before)

    def _grown(self) -> None:
        """Called when the database has grown: train the model that is due. An error is left to the next `update`."""
        due = self.next_epoch
        if due is not None and self._gate.size >= due:
            with suppress(Exception):
                self.update()

    def _train(self) -> None:
        """Learn a model from the newest ring, in one durable step; then take it up."""
        try:
            with self._gate.transaction():
                start, size = self._begin(), self._gate.size
                name = f"model {len(self._models) + 1}, of the rows {start + 1:,} to {size:,}"
                self.progress(0.0, f"{name}: learning")
                held = self._to_hold(size - start)
                request = Minimise(self.problem, self._plan(size - start - held).method, self._features)
                if size not in self._edges:
                    self._gate.mark()  # First: should the run be interrupted, the next ring can begin here.
                self._gate.minimise(request, (start, size), held=held, progress=by_steps(self.progress, name))
                if held:
                    self._catch_up()
                    self._test(self._models[-2:])
        finally:
            self._catch_up()
        self.progress(1.0, f"{name}: learnt")

    def _test(self, models: Sequence[Model]) -> None:
        """Test these models on the rows that were held out, with equal parts of their room."""
        labels = self.problem.loss.labels if self._features is None else self._features.label_kind
        asked = [tallies(model, labels, self._features) for model in models]
        learnt = next(event for event in reversed(self._gate.history) if isinstance(event, Minimised))
        budget = self._gate.budget
        part = budget.amount(learnt.cost) / sum(map(len, asked))
        for tally in chain.from_iterable(asked):
            self._gate.tally(tally, noise_for(Budget(budget.kind, part)))

    def _told(self, ring: int, *, latest: bool) -> Quality | Error | None:
        """What the rows that were held out of a ring say of its own model, or of the one before."""
        which = ring if latest else ring - 1
        if which < 0:
            return None
        model = self._models[which]
        found = [event for event in self._tests[ring] if event.tally.theta == model.theta]
        return told(model, found, self._models[ring].held) if found else None

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
        elif isinstance(event, Tallied):
            self._tests = (*self._tests[:-1], (*self._tests[-1], event))


def _part(validation: Number) -> Fraction:
    """The part of each ring's rows that is held out."""
    if not isinstance(validation, bool) and validation == 0:
        return Fraction(0)
    part = exact(validation, "validation")
    if part >= Fraction(1, 2):
        raise ParameterError("validation", f"must be 0 or a part of the rows below 1/2, not {validation}")
    return part
