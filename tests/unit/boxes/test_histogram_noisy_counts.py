from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import treering as tr
from support.dense_histogram import values_per_cell
from support.random_queries import SCHEMA, any_query
from treering.boxes import histogram as noisy_counts
from treering.boxes.histogram import NoisyCounts, on_simplex


def noisy(seed: int = 3) -> NoisyCounts:
    counts = np.random.default_rng(seed).integers(-5, 60, SCHEMA.shape)
    return NoisyCounts(SCHEMA, int(counts.sum()) - 17, counts)


@given(seed=st.integers(0, 10**6))
def test_queries_are_exact_sums_less_a_part_of_the_excess(seed: int) -> None:
    generator = np.random.default_rng(seed)
    counts = generator.integers(-5, 60, SCHEMA.shape)
    release = NoisyCounts(SCHEMA, 5_000, counts)
    queries = [any_query(generator, SCHEMA) for _ in range(5)]
    centres = generator.random(5)
    right = [float(values_per_cell(query).reshape(-1) @ counts.reshape(-1)) for query in queries]
    assert release.excess == counts.sum() - 5_000
    assert release.rows(queries, centres) == pytest.approx(np.array(right) - centres * release.excess)


def test_marginals_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_counts, "CACHED_CELLS", 10)
    release = noisy()
    generator = np.random.default_rng(0)
    queries = [any_query(generator, SCHEMA) for _ in range(30)]
    assert release.rows(queries, np.zeros(30)) == pytest.approx(noisy().rows(queries, np.zeros(30)))
    assert len(release._marginals) <= 3


@given(counts=st.lists(st.integers(-50, 200), min_size=1, max_size=30), total=st.integers(1, 500))
def test_the_projection_is_the_nearest_distribution(counts: list[int], total: int) -> None:
    """The conditions of Karush, Kuhn and Tucker: one level is taken off all cells that keep something, and at least
    as much off the others."""
    found = on_simplex(counts, total) * total
    assert found.sum() == pytest.approx(total)
    assert (found >= 0).all()
    taken = np.array(counts) - found
    kept = found > 1e-9 * total
    level = taken[kept].mean()
    assert taken[kept] == pytest.approx(level, abs=1e-6)
    assert (taken[~kept] <= level + 1e-6).all()


def test_the_projection_does_not_invent_rows() -> None:
    """Noise on 1,000 empty cells: cutting at zero would leave half of it, the projection a hundredth."""
    noise = np.random.default_rng(1).laplace(0, 20, 1000).round()
    counts = np.concatenate([[10_000.0], noise])
    assert np.maximum(counts, 0)[1:].sum() > 8_000
    assert on_simplex(counts, 10_000)[1:].sum() < 0.05


def test_rows_follow_the_projection() -> None:
    """10,000 rows: a share of ½ strays by 5 standard errors with probability below 1e-6, and the seed is fixed."""
    schema = tr.Schema({"late": tr.categories("no", "yes"), "one": tr.categories("only")})
    release = NoisyCounts(schema, 100, np.array([[55], [45]]))
    rows = release.sample(10_000, np.random.default_rng(5))
    assert rows.column("late").to_pylist().count("no") == pytest.approx(5_500, abs=250)
    assert rows.column("one").to_pylist() == ["only"] * 10_000
    assert release.sample(0, np.random.default_rng(5)).num_rows == 0
    with pytest.raises(tr.ParameterError, match="rows"):
        release.sample(-1, np.random.default_rng(5))
