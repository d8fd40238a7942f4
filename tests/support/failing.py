"""A second stage that fails after the release: a table that is too large, say."""

from __future__ import annotations

from typing import NoReturn

import pytest

from treering.errors import QueryError
from treering.vault.statements import Released

WORDS = "the result has more than 500,000 rows: add a LIMIT, or group by less"


def fail_after_release(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    """From now on no table is worked out."""

    def fails(*_: object) -> NoReturn:
        raise error or QueryError(WORDS)

    monkeypatch.setattr(Released, "table", fails)
