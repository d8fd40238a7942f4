from __future__ import annotations

import gc
import threading
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from support.vaults import crash
from treering.arrays import Floats
from treering.boxes.erm import Model
from treering.domain.loss import Distance, HuberDistance, HuberHinge, Logistic, Loss, Squared
from treering.domain.problem import FEATURE_UNIT, CellFeatures, Descent, Minimise, NoisyMoments
from treering.gate import Marked, Minimised
from treering.schedulers.ermrings import ERMRings
from treering.theory.erm.rings import plan_ring, ring_share
from treering.trusted.kernel import Kernel
from treering.trusted.memory.points import GrowingPoints
from treering.trusted.operations.minimise import Minimising
from treering.vault.vault import Vault

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures(SCHEMA, ["origin"], [[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]], tr.parse("late = 'yes'", SCHEMA))
NEVER = 1e-9


def _cells(rows: int, seed: int = 0) -> list[int]:
    generator = np.random.default_rng(seed)
    origin = generator.integers(0, 3, rows)
    late = generator.random(rows) < np.array([0.2, 0.7, 0.5])[origin]
    return [int(cell) for cell in 2 * origin + late]


def _database(rows: int = 2_000, seed: int = 0) -> TestDatabase:
    return TestDatabase(SCHEMA, _cells(rows, seed))


def _rings(db: Any, **options: Any) -> ERMRings:
    given = {"loss": Logistic(), "epsilon": 1.0, "delta": 1e-9, "beta": NEVER, "features": FEATURES, "radius": 2.0}
    return ERMRings(db, **{**given, **options})


def _excess(model: Model, cells: list[int]) -> float:
    """The true excess risk on some rows, from a fine descent."""
    problem, vectors = model.problem, FEATURES.grid / FEATURE_UNIT
    weights = np.bincount(cells, minlength=SCHEMA.cells)

    def risk(theta: Floats) -> float:
        return problem.risk(theta, vectors, FEATURES.labels, weights)

    theta = np.zeros(2)
    for _ in range(500):
        theta = problem.project(theta - problem.gradient(theta, vectors, FEATURES.labels, weights) / problem.smoothness)
    return risk(np.array(model.theta)) - risk(theta)


# -- a life ------------------------------------------------------------------------------------------------------------


def test_there_is_no_model_before_the_first_update() -> None:
    db = _database()
    learner = _rings(db)
    for look in (lambda: learner.model, lambda: learner.excess_risk_bound):
        with pytest.raises(tr.GuaranteeError, match=r"update\(\)"):
            look()
    db.append_cells(_cells(30_000))
    assert (learner.epochs, learner.models, learner.next_epoch, learner.spent, db.touched) == ([], (), None, 0, 0)
    assert learner.describe()["model"] is None
    assert 0 < learner.guarantee.alpha < 4


@pytest.mark.parametrize(
    "options", [{}, {"delta": 0.0}, {"regularisation": 0.1}, {"loss": HuberHinge()}, {"loss": Squared()}]
)
def test_models_come_by_themselves_and_keep_their_bounds_on_their_rings(options: dict[str, Any]) -> None:
    """With beta = 1e-9 each fails by chance with that probability."""
    db = _database()
    learner = _rings(db, **options)
    everything = _cells(2_000)
    first = learner.update()
    assert first is learner.model is learner.update()
    for step in range(1, 13):
        more = _cells(1_000 * step, step)
        everything += more
        db.append_cells(more)
    assert [model.rows for model in learner.models] == [
        *((0, 2_000), (2_000, 5_000), (5_000, 12_000)),
        *((12_000, 30_000), (30_000, 68_000)),
    ]
    for model in learner.models:
        assert _excess(model, everything[slice(*model.rows)]) <= model.excess_risk
    assert [epoch.size for epoch in learner.epochs] == [2_000, 5_000, 12_000, 30_000, 68_000]
    assert [epoch.alpha for epoch in learner.epochs] == [model.excess_risk for model in learner.models]
    assert sum(epoch.beta for epoch in learner.epochs) < NEVER
    assert learner.next_epoch == 136_000


def test_each_row_pays_for_one_model_and_all_of_the_budget() -> None:
    db = _database()
    learner = _rings(db)
    total = learner._gate.budget.total
    learner.update()
    assert learner.left(2_000) <= 1e-9 * float(total) < learner.left(2_001) == float(total)
    db.append_cells(_cells(2_500, 1))
    assert learner.left(4_500) <= 1e-9 * float(total) < learner.left(4_501) == float(total)
    assert float(total) * (1 - 1e-9) <= learner.spent <= float(total)
    assert not learner.halted


def test_a_ring_is_all_that_its_model_knows() -> None:
    """The first rows say one thing, the later ones the opposite: the model follows within two doublings."""
    early, late = [0, 3] * 4_000, [1, 2] * 4_000
    db = TestDatabase(SCHEMA, early)
    learner = _rings(db, epsilon=10.0)
    assert learner.update().theta[0] < -0.5
    db.append_cells(late)
    assert learner.model.theta[0] > 0.5
    assert learner.model.rows == (8_000, 16_000)


def test_a_model_starts_at_the_one_before() -> None:
    db = _database(8_000)
    learner = _rings(db)
    learner.update()
    db.append_cells(_cells(8_000, 1))
    first, second = learner.models
    assert isinstance(first.method, Descent)
    assert isinstance(second.method, Descent)
    assert first.method.start is None
    assert second.method.start == first.theta
    planned = plan_ring(learner.problem, 8_000, learner._promise.budget, ring_share(NEVER, 1), start=first.theta)
    assert second.method == planned.method
    assert second.excess_risk == planned.alpha


def test_models_come_as_often_as_was_asked() -> None:
    db = _database(1_000)
    learner = _rings(db, every=1.25)
    learner.update()
    for step in range(40):
        db.append_cells(_cells(50, step))
    assert [model.size for model in learner.models] == [1000, 1250, 1600, 2000, 2500]
    small = _rings(TestDatabase(SCHEMA, [0] * 3), every=1.001)
    small.update()
    assert small.next_epoch == 4


def test_points_and_their_default_radius() -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(30_000, 3)) / 4
    kinds: list[tuple[Loss, Any, float, type]] = [
        (Logistic(), np.sign(features[:, 0]), 16.0, Descent),
        (HuberHinge(), np.sign(features[:, 0]), 16.0, Descent),
        (Squared(), np.clip(features[:, 0], -1, 1), 4.0, NoisyMoments),
        (HuberDistance(), None, 1.0, Descent),
        (Distance(), None, 1.0, Descent),
    ]
    for loss, labels, radius, method in kinds:
        db = GrowingPoints(3, loss.labels)
        learner = ERMRings(db, loss, 1.0, 1e-9, NEVER)
        with pytest.raises(tr.GuaranteeError, match="empty"):
            learner.update()
        db.append(features[:10_000], None if labels is None else labels[:10_000])
        assert learner.problem.radius == radius
        assert isinstance(learner.update().method, method)
        db.append(features[10_000:], None if labels is None else labels[10_000:])
        assert learner.model.rows == (10_000, 30_000)
        if labels is not None:
            assert learner.model.theta[0] > 0.3


def test_progress_is_said_for_each_model() -> None:
    said: list[tuple[float, str]] = []
    db = _database()
    learner = _rings(db, progress=lambda done, doing: said.append((done, doing)))
    learner.update()
    db.append_cells(_cells(2_000, 1))
    assert [each for each in said if "step" not in each[1]] == [
        (0.0, "model 1, of the rows 1 to 2,000: learning"),
        (1.0, "model 1, of the rows 1 to 2,000: learnt"),
        (0.0, "model 2, of the rows 2,001 to 4,000: learning"),
        (1.0, "model 2, of the rows 2,001 to 4,000: learnt"),
    ]
    for number, model in enumerate(learner.models, 1):
        steps = [each for each in said if each[1].startswith(f"model {number}") and "step" in each[1]]
        assert isinstance(model.method, Descent)
        assert [done for done, _ in steps] == [step / model.method.steps for step in range(model.method.steps)]
        assert steps[-1][1].endswith(f"step {model.method.steps} of {model.method.steps}")


def test_progress_that_fails_costs_no_model() -> None:
    def fails(_: float, doing: str) -> None:
        if "step" in doing:
            raise ValueError("the terminal is gone")

    learner = _rings(_database(), progress=fails)
    assert learner.update().rows == (0, 2_000)


def test_progress_can_be_asked_for_one_model() -> None:
    said: list[float] = []
    learner = _rings(_database())
    learner.learnt(update=True, progress=lambda done, _: said.append(done))
    assert said[0] == 0
    assert said[-1] == 1
    assert len(said) > 10
    assert learner.learnt(update=False) is learner.model
    before = len(said)
    learner.learnt(update=True)
    assert len(said) == before


def test_the_guarantee_and_the_description_name_the_ring() -> None:
    db = _database()
    learner = _rings(db)
    learner.update()
    db.append_cells(_cells(2_500, 1))
    guarantee = learner.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.size) == (1.0, 1e-9, 4_500)
    assert guarantee.alpha == learner.excess_risk_bound == learner.model.excess_risk
    assert "the rows 2,001 to 4,500" in guarantee.statement
    described = learner.describe()
    assert described["model"]["rows"] == [2_000, 4_500]
    assert described["model"]["theta"] == list(learner.model.theta)
    assert (len(described["epochs"]), described["next_epoch"]) == (2, 9_000)


def test_the_price_is_the_budget_when_a_model_is_due() -> None:
    db = _database()
    learner = _rings(db)
    assert learner.update_price == learner._gate.budget.total
    learner.update()
    assert learner.update_price == 0


# -- the record --------------------------------------------------------------------------------------------------------


def test_it_goes_on_where_a_journal_ends() -> None:
    db = _database()
    live = _rings(db)
    live.update()
    for step in range(1, 6):
        db.append_cells(_cells(1_000 * step, step))
        touched = db.touched
        replayed = _rings(db)
        assert db.touched == touched
        assert (replayed.state, replayed.spent, replayed.next_epoch) == (live.state, live.spent, live.next_epoch)
        assert [model.excess_risk for model in replayed.models] == [model.excess_risk for model in live.models]
        assert replayed.describe() == live.describe()
        live = replayed


def test_another_problem_s_record_is_refused() -> None:
    db = _database()
    _rings(db).update()
    with pytest.raises(tr.TreeringError, match="another problem"):
        _rings(db, radius=3.0)


def test_it_is_forgotten_with_its_last_user() -> None:
    db = _database()
    learner = _rings(db)
    learner.update()
    gone = weakref.ref(learner)
    del learner
    gc.collect()
    before = db.touched
    db.append_cells(_cells(10_000))
    assert gone() is None
    assert db.touched == before


def test_a_run_that_was_interrupted_costs_its_ring_and_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows may be charged, and nothing is released: the next ring begins behind them."""
    db = _database()
    learner = _rings(db)
    learner.update()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Minimising, "perform", interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.append_cells(_cells(2_000, 1))
    assert learner.left(4_000) < learner.left(4_001)
    assert learner.update() is learner.models[0]
    db.append_cells(_cells(500, 2))
    assert [model.rows for model in learner.models] == [(0, 2_000), (4_000, 4_500)]
    assert learner.left(1) < 1e-9
    replayed = _rings(db)
    assert replayed.state == learner.state


def test_a_refusal_is_left_to_the_next_update(monkeypatch: pytest.MonkeyPatch) -> None:
    db = _database()
    learner = _rings(db)
    learner.update()

    def refused(*_: Any, **__: Any) -> None:
        raise tr.GuaranteeError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "minimise", refused)
        db.append_cells(_cells(2_000, 1))
        with pytest.raises(tr.GuaranteeError, match="not now"):
            learner.update()
    assert learner.update().rows == (2_000, 4_000)
    assert sum(isinstance(event, Marked) for event in db.journal.events()) == 2


def test_threads_train_each_ring_once() -> None:
    db = _database()
    learner = _rings(db)
    learner.update()
    ready = threading.Barrier(4)

    def grow() -> None:
        ready.wait()
        for step in range(10):
            db.append_cells(_cells(200, step))
            learner.update()

    threads = [threading.Thread(target=grow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = [model.rows for model in learner.models]
    assert rows[0] == (0, 2_000)
    assert all(left[1] == right[0] for left, right in pairwise(rows))
    assert len(rows) == len(set(rows)) >= 3


# -- in a vault --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed", [True, False])
def test_a_vault_keeps_its_rings_whatever_ends_it(tmp_path: Path, killed: bool) -> None:
    place = tmp_path / "vault"
    vault = Vault.create(place, SCHEMA, 1.0, 1e-6, mechanism=None)
    name = vault.add("ermrings", 0.3, target="late = 'yes'", features=["origin"], every=1.5)
    assert name == "ermrings"
    rows = [{"origin": ("EWR", "JFK", "LGA")[cell // 2], "late": ("no", "yes")[cell % 2]} for cell in _cells(6_000)]
    vault.append(rows[:1_000])
    models = [vault.model()]
    for start in range(1_000, 6_000, 500):
        vault.append(rows[start : start + 500])
        left = [vault.left(row) for row in (1, 1_500, 6_001)]
        if killed:
            crash(vault)
        else:
            vault.close()
        vault = Vault.open(place)
        assert [vault.left(row) for row in (1, 1_500, 6_001)] == left
        models.append(vault.model("ermrings", update=False))
    found = [model.rows for model in models]
    assert list(dict.fromkeys(found)) == [(0, 1_000), (1_000, 1_500), (1_500, 2_500), (2_500, 4_000), (4_000, 6_000)]
    status = vault.status()["mechanisms"][0]
    assert status["model"]["rows"] == [4_000, 6_000]
    assert Vault.read(place).status()["mechanisms"][0]["model"] == status["model"]
    assert 0 < vault.spent <= 0.3 * vault.total * (1 + 1e-12)
    vault.close()


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_questions_are_refused_for_free() -> None:
    db = _database()
    learner = _rings(db)
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        learner.ask("late = 'yes'")
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        learner.ask_many(["late = 'yes'"])
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        learner.plan([])
    with pytest.raises(tr.QueryError, match="draw no rows"):
        learner.sample(3)
    assert (db.touched, learner.spent) == (0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"every": bad}, "every") for bad in (1, 1.0, 0.5, 0, -2, float("nan"), float("inf"), "2", None)),
        ({"features": None}, "features must say"),
        ({"features": None, "dimension": 2}, "features must say"),
        ({"dimension": 3}, "dimension"),
        ({"loss": "logistic"}, "loss"),
        ({"loss": Distance()}, "no labels"),
        ({"radius": -1.0}, "radius"),
        ({"regularisation": -1.0}, "regularisation"),
        ({"beta": 0}, "beta"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 1}, "delta"),
    ],
)
def test_bad_input_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    db = _database(100)
    with pytest.raises(tr.ParameterError, match=words):
        _rings(db, **options)
    assert (db.touched, len(db.journal.events())) == (0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": Logistic(), "dimension": 3}, "dimension must be that of the points, 2"),
        ({"loss": Distance()}, "no labels"),
        ({"loss": Logistic(), "features": FEATURES}, "points have features of their own"),
    ],
)
def test_points_that_do_not_fit_are_refused_before_anything_is_paid(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tr.ParameterError, match=words):
        ERMRings(GrowingPoints(2, "signs"), epsilon=1.0, delta=1e-9, **options)


def test_the_gate_does_not_take_the_learner_s_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that asked for a ring again would be refused."""
    db = _database()
    learner = _rings(db)
    model = learner.update()
    assert isinstance(learner._gate, Kernel)
    again = Minimise(learner.problem, model.method, FEATURES)
    with pytest.raises(tr.BudgetExceeded):
        learner._gate.minimise(again, (0, 2_000))
    monkeypatch.setattr(ERMRings, "_begin", lambda _: 0)
    db.append_cells(_cells(2_000, 1))
    with pytest.raises(tr.BudgetExceeded):
        learner.update()
    assert len([event for event in db.journal.events() if isinstance(event, Minimised)]) == 1
