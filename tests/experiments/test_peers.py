"""The comparison with peers in short: what answers in this environment does, and how its results are read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.peers import __main__ as comparison, answering, elsewhere, measure, report, turbo
from benchmarks.peers.cases import BATCHES, QUESTIONS, RHO, SHAPES, SIZES, Case
from benchmarks.peers.means import errors
from benchmarks.peers.picture import picture
from experiments import turbo_covid
from experiments.record import read

SMALL = Case(2**7, 40, 2_000, 1)
MANY = Case(2**12, 10**6, 10**6, 1)


def test_a_case_is_as_large_as_it_says_and_its_truth_is_that_of_its_rows() -> None:
    assert SMALL.sizes[-1] == 2_000
    assert len(SMALL.batches) == len(SMALL.places) == BATCHES
    query, rows = SMALL.pool[SMALL.places[3][0]], np.concatenate(SMALL.batches[:4])
    codes = np.unravel_index(rows, SMALL.schema.shape)
    assert query.masks is not None
    matching = np.all([mask[codes[place]] for place, mask in zip(query.attributes, query.masks, strict=True)], axis=0)
    assert SMALL.truths[3][0] == matching.sum()


def test_a_million_questions_come_from_a_pool_and_are_read_once_each() -> None:
    case = MANY
    assert sum(map(len, case.places)) == 10**6
    assert len(set(case.pool)) == 10**4
    query = case.pool[case.places[2][5]]
    assert case.truths[2][5] == (query.weights() * table_over(case, 2, query.attributes)).sum()
    assert [len(places) for places, _ in case.different] == [len(set(places.tolist())) for places in case.places]


def table_over(case: Case, batch: int, attributes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    cube = case.histograms[batch].reshape(case.schema.shape)
    return np.asarray(cube.sum(axis=tuple(set(range(cube.ndim)) - set(attributes))))


@pytest.mark.parametrize("name", [name for name in answering.HERE if name not in answering.OURS])
def test_policies_answer_every_question_and_with_a_larger_budget_sharply(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10^6 times the budget the error is a thousandth: below a row for each of them."""
    monkeypatch.setattr(answering, "RHO", RHO * 10**6)
    told = np.concatenate(list(answering.HERE[name](SMALL)))
    assert np.abs(told - np.concatenate(SMALL.truths)).max() < 20


@pytest.mark.parametrize("parts", [answering.even, answering.quickly, answering.slowly])
def test_parts_of_a_budget_are_never_more_than_all_of_it(parts: Callable[[int], npt.NDArray[np.float64]]) -> None:
    assert 0 < parts(10).sum() <= 1 + 1e-12
    assert 0.9 < parts(10**6).sum() <= 1 + 1e-12


def test_parts_of_those_who_are_not_told_do_not_depend_on_the_number() -> None:
    for parts in (answering.quickly, answering.slowly):
        assert parts(10).tolist() == parts(1000)[:10].tolist()


def test_with_a_cache_a_question_of_the_same_batch_has_the_same_answer_and_costs_nothing() -> None:
    case = MANY
    cached = next(answering.HERE["noise per question and a cache, told"](case))
    places, which = case.different[0]
    assert len({(place, answer) for place, answer in zip(which.tolist(), cached.tolist(), strict=True)}) == len(places)
    without = next(answering.HERE["noise per question, told"](case))
    off = [np.abs(each - case.truths[0]).mean() for each in (cached, without)]
    assert off[0] == pytest.approx(off[1] * math.sqrt(sum(len(each) for each, _ in case.different) / 10**6), rel=0.1)


def test_results_are_kept_and_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "results" / "map.csv"
    results = comparison.Results(path)
    took = measure.Took(0.5, 1.0, 100.0)
    results.add(SMALL, "noise", measure.columns(SMALL, np.concatenate(SMALL.truths) + 2, took))
    results.add(SMALL, "other", {"reason": "too long"})
    again = comparison.Results(path)
    assert again.has(SMALL, "noise")
    assert not again.has(SMALL, "noisy")
    row, _ = read(path)
    assert (row["mean"], row["max"], row["per_second"], row["setup_seconds"]) == ("2", "2", "76", "0.5")
    again.forget(["other"])
    assert [row["peer"] for row in read(path)] == ["noise"]


def test_memory_and_time_are_those_of_a_new_process(tmp_path: Path) -> None:
    measure.make(SMALL, path := tmp_path / "case")
    kept = np.ones(2**26)  # 512 MiB, which are not in what it takes.
    found = measure.here(path, "ContinualHistogram")
    assert kept.nbytes / 2**20 > float(found["peak_mib"]) > 30
    assert 0 < float(found["setup_seconds"]) <= float(found["seconds"])
    assert float(found["mean"]) > 0


def test_of_policies_errors_are_kept_and_nothing_else(tmp_path: Path) -> None:
    measure.make(SMALL, path := tmp_path / "case")
    assert set(measure.here(path, "noise per question, told")) == {"mean", "p95", "max"}


def test_a_failure_and_one_that_takes_too_long_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="division"):
        measure.apart(lambda: {"result": str(1 // 0)})
    monkeypatch.setattr(measure, "LIMIT", 1)
    with pytest.raises(measure.TooLong):
        measure.apart(lambda: {"result": str(sum(itertools.count()))})


def test_every_place_of_the_map_is_run_with_three_seeds_and_the_first_seed_first() -> None:
    every = comparison.places(range(1, 11))
    for name in ("treering", "noisy histogram, told", "OpenDP, told"):
        run = {(case.cells, case.questions, case.size) for case, each in every if each == name and case.seed == 3}
        assert len(run) == len(SHAPES) * len(QUESTIONS) * len(SIZES) == 27
    cheap = [case.seed for case, name in every if name in answering.HERE]
    assert cheap == sorted(cheap)
    assert len(set(every)) == len(every)


def test_a_peer_gets_each_question_once_a_batch() -> None:
    given = elsewhere.given(MANY)
    assert len(given["truths"]) == len(given["when"])
    assert len(elsewhere.masks(SMALL)["masks_0"]) == 40
    assert np.bincount(given["when"]).tolist() == [len(places) for places, _ in MANY.different]
    assert given["increments"].sum() == 10**6


def test_the_report_counts_losses() -> None:
    row = {"cells": "128", "questions": "100", "size": "10000"}
    lines = [
        *({**row, "peer": "treering", "mean": value} for value in ("50", "52", "54")),
        *({**row, "peer": "noise, told", "mean": value} for value in ("30", "31", "32")),
        *({**row, "peer": "noise, untold", "mean": value} for value in ("190", "200", "210")),
        *({**row, "peer": "ContinualHistogram", "mean": value} for value in ("1", "1", "1")),
    ]
    found = errors(lines)
    assert found[128, 100, 10_000]["treering"].radius == pytest.approx(4.30 * 2 / math.sqrt(3))
    assert report.verdicts(found, told=True) == {"cases": 1, "near": 0, "overlaps": 0, "half": 0, "worse": 1}
    assert report.verdicts(found, told=False) == {"cases": 1, "near": 1, "overlaps": 0, "half": 1, "worse": 0}
    assert "it is worse in 1." in report.summary(found, told=True)
    assert report.claim(found, told=False).endswith("it is so.")
    assert report.claim(found, told=True).endswith("the first part does not hold and the second part does not hold.")


def test_intervals_that_overlap_count_and_those_of_few_seeds_do_not() -> None:
    row = {"cells": "128", "questions": "100", "size": "10000"}
    default = [{**row, "peer": "treering", "mean": value} for value in ("50", "60", "70")]
    noise = [{**row, "peer": "noise, told", "mean": value} for value in ("40", "50", "60")]
    assert report.verdicts(errors([*default, *noise]), told=True)["overlaps"] == 1
    assert report.verdicts(errors([*default[:2], *noise]), told=True)["worse"] == 1


def test_the_page_and_the_picture_are_what_the_table_of_results_says() -> None:
    rows = read(comparison.RESULTS)
    page = report.PAGE.read_text(encoding="utf-8")
    assert page == report.put(page)
    assert report.PICTURE.read_text(encoding="utf-8") == picture(errors(rows))
    for told in (True, False):
        assert page.count(report.summary(errors(rows), told=told)) == 1


def test_the_page_says_what_was_planned_and_not_run() -> None:
    every = comparison.places(range(1, max(comparison.SEEDS.values()) + 1))
    rows = [dict(zip(comparison.FIELDS, (*case.key, name), strict=False)) for case, name in every]
    assert report.missing(rows) == "Everything else that was planned was run."
    assert "| OpenDP, told | 100 | 1 | 2 |" in report.missing(
        [
            row
            for row in rows
            if (row["peer"], row["questions"], row["seed"], row["size"]) != LEFT or row["cells"] == "128"
        ]
    )


LEFT = ("OpenDP, told", "100", "1", "10000")


def test_the_pool_by_marginal_algebra_is_the_pool() -> None:
    counts = turbo_covid.blocks()[0].astype(np.float64)
    answers, queries = turbo_covid.pool_answers(counts), turbo_covid.pool_queries()
    assert len(answers) == len(queries) == 34_425
    for place in np.random.default_rng(1).integers(len(queries), size=50).tolist():
        weights = np.ones(counts.shape)
        query = queries[place]
        assert query.masks is not None
        for position, mask in zip(query.attributes, query.masks, strict=True):
            weights = weights * mask.reshape([-1 if axis == position else 1 for axis in range(4)])
        assert answers[place] == pytest.approx((weights * counts).sum())


def test_turbos_policy_pays_once_for_a_question_and_answers_what_it_has_learnt_for_nothing() -> None:
    questions, counts = turbo.pool(), turbo_covid.blocks()[0].reshape(-1)
    assert questions.shape == (34_425, 128)
    share = float(counts[questions[7]].sum() / counts.sum())
    policy = turbo.Policy(int(counts.sum()), 128, ready=1, rate=0.05)
    first = policy.ask(7, questions[7], share)
    assert policy.spent == policy.one
    assert policy.ask(7, questions[7], share) == first
    assert policy.spent == policy.one
    policy.ask(-1, np.ones(128, dtype=bool), 1.0)  # All cells: every one has its update, and what is asked is known.
    policy.ask(-2, np.ones(128, dtype=bool), 1.0)
    assert policy.spent == pytest.approx((1 + 1 + 12) * policy.one)
