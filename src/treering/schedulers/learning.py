"""What learners have in common: mechanisms that release models, and answer no queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from treering.answer import Answer
from treering.boxes.base import Progress
from treering.boxes.erm import NO_ANSWERS, Model
from treering.domain.language.items import Item
from treering.domain.language.parse import Question
from treering.domain.problem import CellFeatures, Problem, check_labels
from treering.errors import ParameterError, QueryError, TreeringError
from treering.mechanisms.base import NO_ROWS, Answering
from treering.mechanisms.plan import Plan
from treering.protocols import Database


class Learner(Answering):
    """A mechanism that releases models."""

    answers = False

    @abstractmethod
    def update(self) -> Model:
        """The latest model; a new one is trained first if one is due. The first call trains the first one."""

    @property
    @abstractmethod
    def model(self) -> Model:
        """The latest model that was released: free."""

    @property
    @abstractmethod
    def excess_risk_bound(self) -> float:
        """The proven bound on the latest model's excess risk."""

    @property
    @abstractmethod
    def update_price(self) -> Fraction:
        """What `update` would cost the rows of a model now, in the budget's unit: 0 if none is due."""

    progress: Progress
    """What is called at each step of a model."""

    def learnt(self, *, update: bool, progress: Progress | None = None) -> Model:
        """`update` with ``update``, otherwise `model`. ``progress`` is called for this model alone."""
        if not update:
            return self.model
        before, self.progress = self.progress, progress or self.progress
        try:
            return self.update()
        finally:
            self.progress = before

    def describe(self) -> dict[str, Any]:
        """See `Mechanism.describe`; with the latest model, if there is one."""
        found = super().describe()
        try:
            model = self.model
        except TreeringError:
            return {**found, "model": None}
        bound = self.excess_risk_bound
        return {**found, "model": {"size": model.size, "theta": list(model.theta), "excess_risk_bound": bound}}

    # -- refused ------------------------------------------------------------------------------------------------------

    def ask(self, query: Question) -> NoReturn:
        """Refused: a model answers no queries."""
        raise QueryError(NO_ANSWERS)

    def ask_many(self, queries: Iterable[Question]) -> list[Answer]:
        """Refused: a model answers no queries."""
        raise QueryError(NO_ANSWERS)

    def plan(self, items: Sequence[Item], within: float | None = None) -> NoReturn:
        """Refused: a model answers no queries."""
        raise QueryError(NO_ANSWERS)

    def execute(self, plan: Plan) -> NoReturn:
        """Refused: a model answers no queries."""
        raise QueryError(NO_ANSWERS)

    def sample(self, rows: int, generator: np.random.Generator | None = None) -> NoReturn:
        """Refused: a model draws no rows."""
        raise QueryError(NO_ROWS)


def needed_features(db: Database, features: CellFeatures | None) -> CellFeatures | None:
    """The features, which must be given for a database of more than one cell."""
    if features is None and db.schema.cells > 1:
        raise ParameterError("features", "must say how the database's cells become vectors: use CellFeatures")
    return features


def own_dimension(db: Database, dimension: int | None, features: CellFeatures | None) -> int | None:
    """The dimension that was given; or else that of the points, if the database has any."""
    return getattr(db, "dimension", None) if dimension is None and features is None else dimension


def check_fits(db: Database, problem: Problem, features: CellFeatures | None) -> None:
    """Raise now what the kernel would raise in every run."""
    if features is None:
        points = getattr(db, "dimension", problem.dimension)
        if points != problem.dimension:
            raise ParameterError("dimension", f"must be that of the points, {points}, not {problem.dimension}")
        check_labels(getattr(db, "label_kind", problem.loss.labels), problem.loss)
    elif hasattr(db, "dimension"):
        raise ParameterError("features", "are a map from cells: points have features of their own")
