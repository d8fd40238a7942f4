"""Private learning: what a model takes: by rings, the gradients that it makes; a rerun of ERMG, passes over the data.

A pass is the gradient of the mean logistic loss in numpy, as short as it can be: two products of a matrix and a vector,
and an exponential for each row. What is timed is the processor's time: both sides use one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from time import process_time
from typing import Final

import numpy as np

from benchmarks.harness import Action, Result, ratio
from treering.arrays import Floats
from treering.boxes.erm import ERM
from treering.budget.promise import Budget, Promise
from treering.domain.attribute import categories, integers
from treering.domain.language.parse import parse
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures, Descent, Minimise, Problem
from treering.domain.schema import Schema
from treering.protocols import Database
from treering.schedulers.ermg import ERMG
from treering.schedulers.ermrings import RADIUS
from treering.theory.erm.rings import plan_ring
from treering.theory.schedule import improving_for
from treering.trusted.memory.database import GrowingDatabase
from treering.trusted.memory.points import GrowingPoints

PROMISE: Final = Promise(1.0, 1e-6)
BETA: Final = 0.05
DIMENSION: Final = 10
START, SIZE, END = 1_000, 100_000, 200_000
RING, RING_DIMENSION, STEPS = 1_000_000, 12, 60
RICH: Final = Budget("zcdp", Fraction(10**9))
MOST_PASSES: Final = 12.0


def results() -> Iterator[Result]:
    """Reruns against passes: at 100,000 rows, and over a life; and over cells, at a hundred times as many rows."""
    features, labels = sample(END)
    for radius in (1.0, 4.0):
        yield ratio(
            f"ERMG, a rerun, d=10, 100,000 rows, radius {radius:g} / a pass",
            rerun(collection(features[:SIZE], labels[:SIZE]), ERM(Logistic(), DIMENSION, radius=radius, rerun=True)),
            lambda: one_pass(features[:SIZE], labels[:SIZE]),
            limit=MOST_PASSES,
            clock=process_time,
        )
    yield reruns(features, labels)
    yield ring()
    schema = Schema({"a": integers(1, 30), "b": integers(1, 30), "late": categories("no", "yes")})
    yield ratio(
        "ERMG over 900 cells, a rerun, 10^6 rows / 10^4 rows",
        *(rerun(database(schema, rows), cell_box(schema)) for rows in (10**6, 10**4)),
        limit=1.3,
        clock=process_time,
    )


def reruns(features: Floats, labels: Floats) -> Result:
    """Every 16th rerun of a learner's life from 1,000 rows to 200,000."""
    points = collection(features[:START], labels[:START])
    learner = ERMG(points, Logistic(), PROMISE.epsilon, PROMISE.delta, BETA)
    learner.update()
    while (following := learner.next_epoch) is not None and following <= END:
        points.append(features[points.size : following], labels[points.size : following])
    sizes = [epoch.size for epoch in learner.epochs[::16]]
    box = ERM(Logistic(), DIMENSION, rerun=True)
    runs = [rerun(collection(features[:size], labels[:size]), box) for size in sizes]
    return ratio(
        f"ERMG, {len(sizes)} reruns of a life, 1,000 to 200,000 rows / a pass for each",
        lambda: [run() for run in runs],
        lambda: [one_pass(features[:size], labels[:size]) for size in sizes],
        limit=MOST_PASSES,
        clock=process_time,
    )


def ring() -> Result:
    """A model of a ring of a million rows, against as many gradients in numpy as it makes: 0.6 to 0.8 of their time, as
    exponentials of single precision suffice."""
    features, labels = sample(RING, RING_DIMENSION)
    points = collection(features, labels)
    problem = Problem(Logistic(), RING_DIMENSION, RADIUS)
    method = plan_ring(problem, RING, PROMISE.budget, BETA).method
    assert isinstance(method, Descent)
    # The same steps, but fewer: a step takes what a step takes.
    request = Minimise(problem, replace(method, steps=STEPS))
    return ratio(
        f"ERMRings, {STEPS} steps of a model, d=12, 10^6 rows / {STEPS} passes",
        lambda: points.open_gate(RICH).minimise(request, (0, RING)),
        lambda: [one_pass(features, labels) for _ in range(STEPS)],
        limit=1.3,
        clock=process_time,
    )


def sample(rows: int, dimension: int = DIMENSION) -> tuple[Floats, Floats]:
    """Features on the sphere, and labels by a logistic model."""
    generator = np.random.default_rng(7)
    features = generator.normal(size=(rows, dimension))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.where(generator.random(rows) < 1 / (1 + np.exp(-features[:, 0])), 1.0, -1.0)


def one_pass(features: Floats, labels: Floats) -> Floats:
    """The gradient at a model."""
    theta = np.full(features.shape[1], 0.2)
    return np.asarray((-labels / (1 + np.exp(labels * (features @ theta)))) @ features / len(labels))


def collection(features: Floats, labels: Floats) -> GrowingPoints:
    """The points."""
    points = GrowingPoints(features.shape[1], "signs")
    points.append(features, labels)
    return points


def rerun(db: Database, box: ERM) -> Action:
    """One run with what the schedule from 1,000 rows on gives it at this size. Each time on a new promise."""
    bound = box.bind(db.schema)
    planned = improving_for(bound.alpha, START, PROMISE.budget, BETA, staleness=bound.staleness)
    epoch = planned.epoch(planned.index_at(db.size))

    def run() -> None:
        bound.run(db.open_gate(epoch.budget), epoch.budget, epoch.alpha, epoch.beta)

    return run


def database(schema: Schema, rows: int) -> GrowingDatabase:
    """A database of cells."""
    db = GrowingDatabase(schema)
    db.append_cells(np.random.default_rng(8).integers(0, schema.cells, rows))
    return db


def cell_box(schema: Schema) -> ERM:
    """Logistic regression over the cells, ten features."""
    vectors = np.random.default_rng(9).normal(size=(900, DIMENSION))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    features = CellFeatures(schema, ["a", "b"], vectors, parse("late = 'yes'", schema))
    return ERM(Logistic(), features=features, rerun=True)
