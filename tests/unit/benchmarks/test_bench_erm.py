"""The benchmark of private learning compares what it says: a pass is a gradient, and a rerun releases a model."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_erm import cell_box, collection, database, one_pass, rerun, sample
from treering.boxes.erm import ERM
from treering.domain.attribute import categories, integers
from treering.domain.loss import Logistic
from treering.domain.problem import Problem
from treering.domain.schema import Schema


def test_a_pass_is_the_gradient_of_the_mean_loss() -> None:
    features, labels = sample(500)
    expected = Problem(Logistic(), 10).gradient(np.full(10, 0.2), features, labels)
    assert one_pass(features, labels) == pytest.approx(expected)


def test_a_rerun_makes_a_model_each_time_on_a_new_promise() -> None:
    """So that it can be repeated: a promise that was used before would refuse the second."""
    points = collection(*sample(2000))
    run = rerun(points, ERM(Logistic(), 10, rerun=True))
    run()
    run()
    schema = Schema({"a": integers(1, 30), "b": integers(1, 30), "late": categories("no", "yes")})
    rerun(database(schema, 2000), cell_box(schema))()
