"""Weights are computed once and shared: nobody may write to them."""

from __future__ import annotations

import pytest

from treering.budget.weights import root_weights


@pytest.mark.parametrize("length", [1, 2, 5, 16, 100])
def test_shared_weights_cannot_be_written_to(length: int) -> None:
    assert len(root_weights(length)) == length
    assert not root_weights(length).flags.writeable
