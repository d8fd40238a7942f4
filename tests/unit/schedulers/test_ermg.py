from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import treering as tr
from support.databases import TestDatabase
from treering.arrays import Floats
from treering.boxes.erm import ERM, Model
from treering.boxes.histogram import HistogramBox
from treering.domain.loss import Distance, HuberHinge, Logistic, Squared
from treering.domain.problem import FEATURE_UNIT, CellFeatures, Descent, Net, Perturbation
from treering.schedulers.ermg import ERMG
from treering.schedulers.improver import BBImprover
from treering.theory.erm.paper import paper_alpha_at, rate
from treering.trusted.memory.points import GrowingPoints

SCHEMA = tr.Schema({"origin": tr.categories("EWR", "JFK", "LGA"), "late": tr.categories("no", "yes")})
FEATURES = CellFeatures(SCHEMA, ["origin"], [[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]], tr.parse("late = 'yes'", SCHEMA))
NEVER = 1e-9


def _cells(rows: int, seed: int = 0) -> list[int]:
    generator = np.random.default_rng(seed)
    origin = generator.integers(0, 3, rows)
    late = generator.random(rows) < np.array([0.2, 0.7, 0.5])[origin]
    return [int(cell) for cell in 2 * origin + late]


def _database(rows: int = 20_000, seed: int = 0) -> TestDatabase:
    return TestDatabase(SCHEMA, _cells(rows, seed))


def _ermg(db: Any, **options: Any) -> ERMG:
    given = {"loss": Logistic(), "epsilon": 1.0, "delta": 1e-9, "beta": NEVER, "features": FEATURES, "radius": 2.0}
    return ERMG(db, **{**given, **options})


def _excess(db: TestDatabase, model: Model) -> float:
    """The true excess risk on the rows of now, from a fine descent."""
    problem, vectors = model.problem, FEATURES.grid / FEATURE_UNIT
    weights = db.rows.cells.marginal(FEATURES.joint).reshape(-1)

    def risk(theta: Floats) -> float:
        return problem.risk(theta, vectors, FEATURES.labels, weights)

    theta = np.zeros(2)
    for _ in range(500):
        theta = problem.project(theta - problem.gradient(theta, vectors, FEATURES.labels, weights) / problem.smoothness)
    return risk(np.array(model.theta)) - risk(theta)


# -- a life ------------------------------------------------------------------------------------------------------------


def test_there_is_no_model_before_the_first_update() -> None:
    db = _database()
    learner = _ermg(db)
    for look in (lambda: learner.model, lambda: learner.excess_risk_bound):
        with pytest.raises(tr.GuaranteeError, match=r"update\(\)"):
            look()
    db.append_cells(_cells(30_000))
    assert (learner.epochs, learner.next_epoch, learner.spent, db.touched) == ([], None, 0, 0)
    assert 0 < learner.alpha_at(50_000) < learner.problem.whole_lipschitz * 4


@pytest.mark.parametrize("options", [{}, {"delta": 0.0}, {"regularisation": 0.1}, {"method": "net"}])
def test_models_come_by_themselves_and_keep_their_bounds(options: dict[str, Any]) -> None:
    """With beta = 1e-9 each fails by chance with that probability."""
    db = _database()
    learner = _ermg(db, **options)
    first = learner.update()
    assert first is learner.model
    assert first is learner.update()
    for step in range(8):
        db.append_cells(_cells(3_000 << step % 5, step + 1))
        model = learner.model
        bound = learner.excess_risk_bound
        assert _excess(db, model) <= bound <= learner.alpha_at(db.size) + 1e-12
        assert bound == pytest.approx(model.aged(db.size))
    assert learner.model is not first
    assert len(learner.epochs) >= 3
    assert all(epoch.error is None for epoch in learner.epochs)
    assert learner.next_epoch is not None
    assert db.size < learner.next_epoch
    assert 0 < learner.spent < learner.spent + learner.remaining


def test_the_bound_counts_new_rows() -> None:
    db = _database()
    learner = _ermg(db)
    model = learner.update()
    fresh = learner.excess_risk_bound
    assert fresh == model.excess_risk
    assert learner.next_epoch is not None
    db.append_cells([0] * (learner.next_epoch - 1 - db.size))
    assert learner.model is model
    share = 20_000 / db.size
    worst = ERM(Logistic(), 2, radius=2.0).worst
    assert learner.excess_risk_bound == pytest.approx(share * fresh + (1 - share) * worst)
    assert learner.alpha_at(db.size) == pytest.approx(share * learner.epochs[0].alpha + (1 - share) * worst)


def test_alpha_falls_as_the_data_grow() -> None:
    learner = _ermg(_database())
    learner.update()
    alphas = [learner.alpha_at(size) for size in (20_000, 200_000, 2_000_000, 20_000_000)]
    assert alphas == sorted(alphas, reverse=True)
    assert alphas[-1] < alphas[0] / 20
    assert learner.guarantee.alpha == alphas[0]
    assert "excess empirical risk" in learner.guarantee.statement


def test_the_guarantee_is_about_the_size_of_now() -> None:
    db = _database()
    learner = _ermg(db)
    worst = f"{ERM(Logistic(), 2, radius=2.0).worst:.3g}"
    before = learner.guarantee
    assert (before.alpha, before.beta, before.size) == (learner.alpha_at(20_000), NEVER, 20_000)
    assert "from 20,000 rows on; at 20,000 rows that is alpha. Any model of the ball has " + worst in before.statement
    learner.update()
    assert learner.guarantee.alpha == pytest.approx(before.alpha)
    db.append_cells([0] * 10)
    after = learner.guarantee
    assert (after.alpha, after.size) == (learner.alpha_at(20_010), 20_010)
    assert "from 20,000 rows on; at 20,010 rows that is alpha" in after.statement


def test_if_the_first_model_fails_the_guarantee_is_that_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no luck")

    db = _database()
    learner = _ermg(db)
    with monkeypatch.context() as patched:
        patched.setattr(ERM, "run", fails)
        with pytest.raises(tr.GuaranteeError, match="no luck"):
            learner.update()
    with pytest.raises(tr.GuaranteeError, match="no luck"):
        _ = learner.model
    assert learner.next_epoch is not None
    promised = learner.guarantee
    assert promised.alpha == learner.alpha_at(learner.next_epoch)
    assert f"at {learner.next_epoch:,} rows that is alpha" in promised.statement
    assert "but nothing is answered yet: epoch 0 failed" in promised.statement
    db.append_cells(_cells(learner.next_epoch - db.size))
    assert learner.model.size == db.size
    assert learner.excess_risk_bound <= promised.alpha == learner.guarantee.alpha


@pytest.mark.parametrize(("profile", "rerun"), [("tight", True), ("paper", False)])
def test_a_loss_becomes_a_box_that_is_made_for_reruns_unless_it_is_the_papers(profile: Any, rerun: bool) -> None:
    """A box for reruns makes few passes, and so proves less than one for a single run at large sizes."""
    made = _ermg(_database(), profile=profile, radius=20.0)
    given = {many: ERM(Logistic(), radius=20.0, features=FEATURES, rerun=many) for many in (True, False)}
    boxed = {many: ERMG(_database(), box, 1.0, 1e-9, NEVER, profile) for many, box in given.items()}
    for size in (20_000, 10**8):
        assert made.alpha_at(size) == boxed[rerun].alpha_at(size)
    if profile == "tight":
        assert made.alpha_at(10**8) > boxed[False].alpha_at(10**8)


def test_it_goes_on_where_a_journal_ends() -> None:
    """Warm starts included: the same models, to the last bit, from the record alone."""
    db = _database()
    live = _ermg(db, method="perturbation")
    live.update()
    db.append_cells(_cells(60_000, 5))
    touched = db.touched
    replayed = _ermg(db, method="perturbation")
    assert db.touched == touched
    assert isinstance(replayed.model.method, Perturbation)
    assert replayed.model.method.start is not None
    assert (replayed.model.theta, replayed.model.excess_risk) == (live.model.theta, live.model.excess_risk)
    assert (replayed.state, replayed.spent, replayed.next_epoch) == (live.state, live.spent, live.next_epoch)


def test_it_is_an_improver_over_erm() -> None:
    learner = _ermg(_database())
    box = ERM(Logistic(), radius=2.0, features=FEATURES, rerun=True)
    improver = BBImprover(_database(), box, 1.0, 1e-9, NEVER)
    assert [improver.alpha_at(size) for size in (20_000, 10**6)] == [learner.alpha_at(size) for size in (20_000, 10**6)]
    given = ERMG(_database(), ERM(Logistic(), radius=2.0, features=FEATURES, rerun=True), 1.0, 1e-9, NEVER)
    assert given.alpha_at(10**6) == learner.alpha_at(10**6)


def test_it_is_forgotten_with_its_last_user() -> None:
    db = _database()
    learner = _ermg(db)
    learner.update()
    gone = weakref.ref(learner)
    del learner
    gc.collect()
    before = db.touched
    db.append_cells(_cells(100_000))
    assert gone() is None
    assert db.touched == before


def test_points() -> None:
    generator = np.random.default_rng(1)
    db = GrowingPoints(5, "signs")
    learner = ERMG(db, HuberHinge(), 1.0, 1e-9, NEVER)
    with pytest.raises(tr.GuaranteeError, match="empty"):
        learner.update()
    features = generator.normal(size=(30_000, 5)) / 4
    db.append(features[:10_000], np.sign(features[:10_000, 0]))
    assert isinstance(learner.update().method, Descent)
    db.append(features[10_000:], np.sign(features[10_000:, 0]))
    assert learner.model.size == 30_000
    assert learner.model.theta[0] > 0.3


# -- the paper's profile -----------------------------------------------------------------------------------------------


def test_the_paper_runs_at_every_size_that_it_sees() -> None:
    db = _database(5_000)
    learner = _ermg(db, profile="paper", c=0.1)
    learner.update()
    for _ in range(4):
        db.append_cells(_cells(10))
    assert [epoch.size for epoch in learner.epochs] == [5_000, 5_010, 5_020, 5_030, 5_040]
    assert all(epoch.error is None and epoch.epsilon is not None for epoch in learner.epochs)
    assert isinstance(learner.model.method, Net | Perturbation)
    assert learner.excess_risk_bound == learner.model.excess_risk <= ERM(Logistic(), 2, radius=2.0).worst


@pytest.mark.parametrize("regularisation", [0.0, 0.1])
def test_the_papers_rate_in_the_units_of_the_problem(regularisation: float) -> None:
    """A loss of Lipschitz constant L on diameter D is L·D times one of constant 1 on diameter 1."""
    db = _database(10_000)
    learner = _ermg(db, profile="paper", c=0.1, regularisation=regularisation)
    learner.update()
    lipschitz, diameter = learner.problem.whole_lipschitz, 4.0
    convexity = regularisation * diameter / lipschitz if regularisation else None
    rates = rate(2, convexity)._replace(g=rate(2, convexity).g * lipschitz * diameter)
    papers = paper_alpha_at(10_000, 1.0, 1e-9, NEVER, 0.1, rates, 10_000)
    box = ERM(Logistic(), radius=2.0, regularisation=regularisation, features=FEATURES).bind(SCHEMA)
    epoch = learner.epochs[0]
    assert epoch.epsilon is not None
    own = box.alpha(10_000, tr.Promise(epoch.epsilon, 0).budget, epoch.beta)
    assert epoch.alpha == pytest.approx(max(papers, own), rel=1e-6)


def test_no_bound_is_above_what_any_model_has() -> None:
    learner = _ermg(_database(100), profile="paper")
    learner.update()
    worst = ERM(Logistic(), 2, radius=2.0).worst
    assert learner.epochs[0].alpha > worst
    assert learner.alpha_at(100) == learner.excess_risk_bound == worst


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["tight", "paper"])
def test_a_start_that_promises_nothing_is_refused_if_wished(profile: Any) -> None:
    db = _database(100)
    learner = _ermg(db, profile=profile, vacuous="refuse")
    with pytest.raises(tr.GuaranteeError, match=r"From about [\d,]+ rows on"):
        learner.update()
    assert (db.touched, learner.spent, learner.epochs) == (0, 0, [])
    assert _ermg(_database(100), profile=profile).update().size == 100


def test_questions_are_refused_for_free() -> None:
    db = _database()
    learner = _ermg(db)
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        learner.ask("late = 'yes'")
    with pytest.raises(tr.QueryError, match="a model answers no queries"):
        learner.ask_many(["late = 'yes'"])
    assert (db.touched, learner.spent) == (0, 0)


def test_c_is_at_most_half_of_the_start() -> None:
    db = _database(100)
    learner = _ermg(db, profile="paper", c=51)
    with pytest.raises(tr.GuaranteeError, match="at most half of the starting size, 50"):
        learner.update()
    assert (db.touched, learner.spent) == (0, 0)
    db.append_cells([0] * 2)
    assert learner.alpha_at(102) == ERM(Logistic(), 2, radius=2.0).worst


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        *(({"c": bad, "profile": "paper"}, tr.ParameterError, "c must") for bad in (0, -0.1, float("nan"), "1")),
        ({"c": 0.1}, tr.ParameterError, "c belongs to the paper"),
        ({"profile": "loose"}, tr.ParameterError, "profile"),
        ({"vacuous": "maybe"}, tr.ParameterError, "vacuous"),
        ({"features": None}, tr.ParameterError, "features must say"),
        ({"features": None, "dimension": 2}, tr.ParameterError, "features must say"),
        ({"dimension": 3}, tr.ParameterError, "dimension"),
        ({"loss": "logistic"}, tr.ParameterError, "loss"),
        ({"loss": HistogramBox()}, tr.ParameterError, "loss"),
        ({"loss": Distance()}, tr.ParameterError, "no labels"),
        ({"loss": ERM(Logistic(), features=FEATURES)}, tr.ParameterError, "is an ERM"),
        ({"method": "descent", "delta": 0.0}, tr.GuaranteeError, "zCDP only"),
        ({"method": "descent", "profile": "paper"}, tr.GuaranteeError, "zCDP only"),
        ({"delta": 0.0, "profile": "paper"}, tr.ParameterError, "delta"),
        ({"epsilon": 2.0, "profile": "paper"}, tr.GuaranteeError, "epsilon must be at most 1"),
        ({"radius": -1.0}, tr.ParameterError, "radius"),
        ({"beta": 0}, tr.ParameterError, "beta"),
    ],
)
def test_bad_input_is_refused_by_name(options: dict[str, Any], error: type[Exception], words: str) -> None:
    db = _database(100)
    with pytest.raises(error, match=words):
        _ermg(db, **options)
    assert (db.touched, len(db.journal.events())) == (0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": Logistic(), "dimension": 3}, "dimension must be that of the points, 2"),
        ({"loss": ERM(Logistic(), 3)}, "dimension must be that of the points, 2"),
        ({"loss": Distance()}, "no labels"),
        ({"loss": Logistic(), "features": FEATURES}, "points have features of their own"),
        ({"loss": Logistic(), "method": "nets"}, "method"),
    ],
)
def test_points_that_do_not_fit_are_refused_before_anything_is_paid(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tr.ParameterError, match=words):
        ERMG(GrowingPoints(2, "signs"), epsilon=1.0, delta=1e-9, **options)


def test_signs_are_numbers_for_a_squared_loss() -> None:
    db = GrowingPoints(2, "signs")
    db.append([[0.5, 0.5]] * 10, [1] * 10)
    assert ERMG(db, Squared(), 1.0, 1e-9).update().size == 10
