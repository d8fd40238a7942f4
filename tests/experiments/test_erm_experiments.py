"""The claims of the experiments on learning can be seen to break; that they hold, test_experiments shows.

By chance: the mean excess risk of four streams is 0.4 of the paper's, with a standard deviation of 0.06, and would have
to be 1; the AUC on the flights would have to fall by six times its standard deviation. Both are below 10^-8.
"""

from __future__ import annotations

import numpy as np
import pytest

import treering as tr
from experiments import erm_flights, erm_logistic, learn_flights, learn_streams
from experiments.claims import Claims
from treering.demo.flights import SCHEMA


def test_a_larger_exponent_breaks_the_claim(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erm_logistic, "QUICK_STREAMS", 1)
    monkeypatch.setattr(erm_logistic, "QUICK_END", 6_000)
    monkeypatch.setattr(erm_logistic, "EXPONENT", 0.65)
    assert erm_logistic.main(["--quick"]) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_a_model_of_noise_breaks_the_claim_on_flights() -> None:
    mapped = erm_flights.features()
    generator = np.random.default_rng(0)
    predictions = generator.normal(size=mapped.entries)
    counts = np.ones(mapped.entries, dtype=np.int64)
    assert abs(erm_flights.quality(predictions, mapped.labels, counts).auc - 0.5) < 0.03
    assert erm_flights.quality(mapped.labels, mapped.labels, counts) == erm_flights.Quality(1.0, 1.0)


def test_a_model_that_lags_breaks_the_claims_on_streams(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits far below 0 stand for models that are worse."""
    monkeypatch.setattr(learn_streams, "WITHIN_RMSE", -0.5)
    claims = Claims()
    learn_streams.regress(claims, 1, 30.0, 1, 1.0)
    assert claims.exit_code() == 1
    assert "BROKEN" in capsys.readouterr().out


def test_rings_that_are_combined_are_weighted_by_their_squares() -> None:
    db = tr.GrowingDatabase(SCHEMA)
    db.append_cells(np.zeros(1_000, dtype=np.int64))
    learner = learn_flights.rings(2.0)(db)
    learner.update()
    db.append_cells(np.ones(3_000, dtype=np.int64))
    assert isinstance(learner, tr.ERMRings)
    first, second = (np.array(model.theta) for model in learner.models)
    np.testing.assert_allclose(learn_flights.combined(learner), 0.1 * first + 0.9 * second)
