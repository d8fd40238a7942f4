"""How long reading parts and writing bases takes: files, cells and persons, added up by hand."""

from __future__ import annotations

import pytest

from treering.vault.bases import due, reading, writing


def test_reading_a_part() -> None:
    """400 µs a file, 30 ns a line, of which there are no more than cells; 2 µs a person, in a file of their own."""
    assert reading(100, 1000, persons=False) == pytest.approx(400e-6 + 100 * 30e-9, rel=1e-12)
    assert reading(100, 40, persons=False) == pytest.approx(400e-6 + 40 * 30e-9, rel=1e-12)
    assert reading(100, 40, persons=True) == pytest.approx(800e-6 + 40 * 30e-9 + 100 * 2e-6, rel=1e-12)


def test_writing_a_base() -> None:
    """5 ms, and 70 ns for each line of each stretch; 1 µs a person."""
    assert writing((3, 10), 5, persons=False) == pytest.approx(5e-3 + (3 + 5) * 70e-9, rel=1e-12)
    assert writing((3, 10), 100, persons=False) == pytest.approx(5e-3 + 10 * 70e-9, rel=1e-12)
    assert writing((3, 10), 5, persons=True) == pytest.approx(5e-3 + 8 * 70e-9 + 10 * 1e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("debt", "effort", "usual", "closing"),
    [(0.1, 0.01, True, True), (0.0999, 0.01, False, True), (0.0125, 0.001, False, True), (0.0124, 0.001, False, False)],
)
def test_a_base_is_due(debt: float, effort: float, usual: bool, closing: bool) -> None:
    """From a tenth of a second on, on close from an eightieth; and only if reading takes three times as long."""
    assert due(debt, effort, closing=False) == usual
    assert due(debt, effort, closing=True) == closing
    assert not due(debt, debt / 2.9, closing=True)
    assert due(3.0, 1.0, closing=False)
