"""The comparison with peers in short: what answers in this environment does, and how its results are read."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import __main__ as comparison
from benchmarks.peers import answering, report, turbo
from benchmarks.peers.cases import BATCHES, RHO, Case
from experiments import turbo_covid

SMALL = Case(2**7, 40, 2_000, 1)


def test_a_case_is_as_large_as_it_says_and_its_truth_is_that_of_its_rows() -> None:
    assert SMALL.sizes[-1] == 2_000
    assert len(SMALL.batches) == len(SMALL.asked) == BATCHES
    query, rows = SMALL.asked[3][0], np.concatenate(SMALL.batches[:4])
    codes = np.unravel_index(rows, SMALL.schema.shape)
    assert query.masks is not None
    matching = np.all([mask[codes[place]] for place, mask in zip(query.attributes, query.masks, strict=True)], axis=0)
    assert SMALL.truths[3][0] == matching.sum()


@pytest.mark.parametrize("name", [name for name in answering.HERE if name not in answering.OURS])
def test_policies_answer_every_question_and_with_a_larger_budget_sharply(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10^6 times the budget the error is a thousandth: below a row for each of them."""
    monkeypatch.setattr(answering, "RHO", RHO * 10**6)
    told = answering.HERE[name](SMALL)
    assert not isinstance(told, str)
    assert np.abs(told - np.concatenate(SMALL.truths)).max() < 20


def test_results_are_kept_and_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "results" / "map.csv"
    results = comparison.Results(path)
    results.add(SMALL, "noise", comparison.measured(SMALL, np.concatenate(SMALL.truths) + 2, 0.5, 100.0))
    again = comparison.Results(path)
    assert again.has(SMALL, "noise")
    assert not again.has(SMALL, "noisy")
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["mean"], row["max"], row["per_second"]) == ("2", "2", "80")


def test_the_report_counts_losses() -> None:
    row = {"cells": "128", "questions": "100", "size": "10000"}
    lines = [
        *({**row, "peer": "treering", "mean": value} for value in ("50", "52", "54")),
        *({**row, "peer": "noise, told", "mean": value} for value in ("30", "31", "32")),
        *({**row, "peer": "noise, untold", "mean": value} for value in ("190", "200", "210")),
    ]
    found = report.errors(lines)
    assert found[128, 100, 10_000]["treering"].radius == pytest.approx(4.30 * 2 / math.sqrt(3))
    assert report.table(found, told=True)[-1].endswith("in 0; at most half in 0.")
    assert report.table(found, told=False)[-1].endswith("in 1; at most half in 1.")


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
