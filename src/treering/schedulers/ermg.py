"""ERMG: a private model that improves as the database grows, the paper's instantiation of BBImprover."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias

from treering.boxes.base import Box, Progress, Rate
from treering.boxes.erm import ERM, PASSES, How, Model
from treering.budget.promise import Promise
from treering.domain.loss import Loss
from treering.domain.problem import CellFeatures, Problem
from treering.errors import GuaranteeError, ParameterError
from treering.params import Number, Profile
from treering.protocols import Database
from treering.schedulers.base import check_covered
from treering.schedulers.epochs import Present
from treering.schedulers.improver import BBImprover, Improving
from treering.schedulers.learning import Learner, check_fits, needed_features, own_dimension
from treering.theory.erm.paper import rate
from treering.theory.schedule import ImprovingSchedule
from treering.words import counted

Vacuous: TypeAlias = Literal["allow", "refuse"]


class ERMG(Learner, BBImprover):
    """`BBImprover` over `ERM`: a model, released again and again, whose excess risk falls as the database grows.

    Formal guarantee. *Privacy*: all models ever released together are (epsilon, delta)-DP, neighbours replacing one
    row. *Accuracy*: with probability at least 1 − beta, at every size τ from the start on, the latest model, made at
    size t ≤ τ, has excess empirical risk on all τ rows of at most (t/τ)·α_t + (1−t/τ)·staleness, α_t its proven excess
    risk when it was made and staleness the largest excess risk that any model of the ball can have, at most Lipschitz
    constant times diameter. (Cummings, Krehbiel, Lai, Tantipongpipat, theorem "ERMG"; the convex sum in place of
    α_t + staleness is ours, see `Model.aged`.)

    Nothing is released before the first `update`, which trains on the database as it is then and starts the schedule.
    From then on models are released as rows arrive, when the schedule says so, and `model` is the latest.

    - ``db``: a database, with ``features`` that map its cells to vectors and labels; or points, which have their own
    - ``loss``: a loss, or an `ERM`, which then replaces all of ``dimension`` … ``passes``. (Of a loss and the tight
      profile an `ERM` with ``rerun=True`` is made, for few passes a run)
    - ``epsilon``, ``delta``: the privacy promise; a `Promise` may take the place of ``epsilon``
    - ``beta``: the probability that the excess risk of any model, ever, is above its bound
    - ``profile="tight"``: noise for zCDP if delta > 0 (Gaussian, √d), pure otherwise; runs at gaps that grow
    - ``profile="paper"``: a pure run after every append: the net in at most 3 dimensions, or output perturbation. Each
      run has so small a budget that the model is mostly noise at common sizes. Its `alpha_at` is the paper's rate with
      a leading constant of 1, or what is proven if that is more
    - ``c``, ``progress``: as for `BBImprover`
    - ``dimension``, ``radius``, ``regularisation``, ``features``, ``method``, ``passes``: as for `ERM`
    - ``vacuous="refuse"``: refuse to start where no excess risk below the largest possible one is guaranteed; by
      default it starts, as a model may be good long before that is proven

    >>> import numpy as np
    >>> from treering.domain.loss import Logistic
    >>> from treering import GrowingPoints
    >>> points = GrowingPoints(2, "signs")
    >>> points.append(np.tile([[0.6, 0.0], [-0.6, 0.0]], (10_000, 1)), np.tile([1, -1], 10_000))
    20000
    >>> learner = ERMG(points, Logistic(), epsilon=1.0, delta=1e-9, beta=1e-9, radius=4.0)
    >>> learner.update().theta[0] > 1
    True
    >>> learner.alpha_at(10**6) < learner.alpha_at(20_000) / 5
    True
    """

    def __init__(
        self,
        db: Database,
        loss: Loss | ERM,
        epsilon: Number | Promise,
        delta: Number,
        beta: Number = 0.05,
        profile: Profile = "tight",
        *,
        c: Number | None = None,
        progress: Progress | None = None,
        dimension: int | None = None,
        radius: float = 1.0,
        regularisation: float = 0.0,
        features: CellFeatures | None = None,
        method: How = "auto",
        passes: int = PASSES,
        vacuous: Vacuous = "allow",
    ) -> None:
        if vacuous not in ("allow", "refuse"):
            raise ParameterError("vacuous", f'must be "allow" or "refuse", not {vacuous!r}')
        self._vacuous = vacuous
        if isinstance(loss, ERM):
            given = (dimension, radius, regularisation, features, method, passes)
            if given != (None, 1.0, 0.0, None, "auto", PASSES):
                raise ParameterError("loss", "is an ERM, which has its own dimension, radius, features and method")
            box = loss
        else:
            box = ERM(
                loss,
                own_dimension(db, dimension, features),
                radius=radius,
                regularisation=regularisation,
                features=needed_features(db, features),
                method=method,
                passes=passes,
                rerun=profile == "tight",
            )
        check_fits(db, box.problem, box.features)
        self.problem: Problem = box.problem
        """What is minimised."""
        self._worst = box.worst
        super().__init__(db, box, epsilon, delta, beta, profile, c=c, progress=progress)

    # -- models -------------------------------------------------------------------------------------------------------

    def update(self) -> Model:
        """The latest model; a new one is trained first if one is due. The first call starts the schedule."""
        self._rows("an empirical risk needs at least one row")
        release = self._keeper.standing()[1]
        assert isinstance(release, Model)
        return release

    @property
    def update_price(self) -> Fraction:
        """See `Learner.update_price`."""
        self._rows_to_share()
        return self._keeper.due()

    @property
    def model(self) -> Model:
        """The latest model that was released: free."""
        if not self._keeper.started:
            raise GuaranteeError("no model has been released yet: update() releases the first one")
        release = self.release
        assert isinstance(release, Model)
        return release

    @property
    def excess_risk_bound(self) -> float:
        """The proven bound on the latest model's excess risk on all present rows, also those that came after it."""
        return self.model.aged(self._gate.size)

    @property
    def progress(self) -> Progress:
        """What is called at each step of a model."""
        return self._keeper.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._keeper.progress = progress

    # -- inside -------------------------------------------------------------------------------------------------------

    def alpha_at(self, size: int) -> float:
        """The bound on the excess risk of the latest model when the database has ``size`` rows, now or later.

        Before the first `update`, as if it were now. Never above the largest excess risk that any model can have.
        """
        return min(super().alpha_at(size), self._worst)

    def _promised(self, plan: ImprovingSchedule, present: Present, size: int) -> tuple[float, str]:
        asked = present.until if self._keeper.started and present.epoch is None else size
        return self.alpha_at(asked), (
            f"the model in force has an excess empirical risk of at most alpha_at(size), at every size from "
            f"{counted(plan.start, 'row')} on; at {counted(asked, 'row')} that is alpha. "
            f"Any model of the ball has {self._worst:.3g}"
        )

    def _rate(self, box: Box, promise: Promise) -> Rate:
        """The paper's rate for a 1-Lipschitz loss on diameter 1, times L·D: in the units of this problem's loss."""
        check_covered(promise)
        problem, convexity = self.problem, None
        if problem.regularisation:  # Below 2, as the Lipschitz constant is that of the loss with its regulariser.
            convexity = problem.regularisation * 2 * problem.radius / problem.whole_lipschitz
        p, p1, p2, g = rate(problem.dimension, convexity)
        return Rate(p, g * problem.whole_lipschitz * 2 * problem.radius, p1, p2)

    def _worthwhile(self, plan: Improving, box: Box) -> Improving:
        return plan if self._vacuous == "allow" else super()._worthwhile(plan, box)
