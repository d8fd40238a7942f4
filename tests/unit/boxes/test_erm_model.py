"""A released model, over a database with one-hot features: it predicts for rows at hand, and can be read."""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from treering.domain.attribute import Value
from treering.domain.loss import Logistic
from treering.domain.problem import CellFeatures

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "hour": tr.bins([0, 8, 16, 24], missing=True),
        "only": tr.categories("one"),
        "delay": tr.integers(0, 30),
    }
)
FEATURES = CellFeatures.one_hot(SCHEMA, ["hour", "origin", "only"], "delay >= 15")


def learner(size: int = 6000) -> tr.ERMG:
    """Flights from Newark are late, others are not; the hour does not matter. So much epsilon that noise does not."""
    db = tr.GrowingDatabase(SCHEMA)
    generator = np.random.default_rng(0)
    origin, hour = generator.integers(3, size=size), generator.integers(4, size=size)
    codes = (origin, hour, np.zeros(size, dtype=np.int64), np.where(origin == 0, 20, 3))
    db.append_cells(np.ravel_multi_index(codes, SCHEMA.shape))
    return tr.ERMG(db, Logistic(), 1e6, 1e-6, 1e-9, radius=6.0, features=FEATURES)


def test_a_model_over_one_hot_features_predicts_for_rows_and_cells_and_is_read_in_words() -> None:
    model = learner().update()
    rows: list[dict[str, Value]] = [{"origin": "EWR", "hour": 9.5, "only": "one"}, SCHEMA.values(SCHEMA.cells - 1)]
    late, punctual = model.predictions(FEATURES.vectors_of(rows))
    assert late > 0.5
    assert punctual < -0.5
    weights = model.weights(FEATURES)
    assert list(weights) == [
        "intercept",
        "origin = 'EWR'",
        "origin = 'JFK'",
        "origin = 'LGA'",
        "hour < 8",
        "hour >= 8 AND hour < 16",
        "hour >= 16",
        "hour IS NULL",
        '"only"',
    ]
    assert weights["origin = 'EWR'"] > 1 > -0.5 > weights["origin = 'JFK'"]
    of_the_row = ("intercept", "origin = 'EWR'", "hour >= 8 AND hour < 16", '"only"')
    assert late == pytest.approx(sum(weights[words] for words in of_the_row))


def test_what_is_not_its_features_is_refused() -> None:
    model = learner(2000).update()
    other = CellFeatures.one_hot(SCHEMA, ["origin"], "delay >= 15")
    table = CellFeatures(SCHEMA, ["origin"], np.eye(3, 9), FEATURES.target)
    with pytest.raises(tr.ParameterError, match="trained on"):
        model.weights(other)
    with pytest.raises(tr.ParameterError, match="one_hot"):
        model.weights(table)
    with pytest.raises(tr.ParameterError, match="rows of 9 numbers"):
        model.predictions(other.vectors_of([{"origin": "EWR"}]))
