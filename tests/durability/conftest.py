"""What the tests of durability share: a warmed process to fork from, and a summary of the kills at the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.torture import warm


@pytest.fixture(scope="session")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Libraries loaded, kernels compiled, plans made: what a session's child finds done."""
    warm(tmp_path_factory.mktemp("warm") / "vault")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many kills there were, and at which steps."""
    kills: Counter[str] = Counter()
    kinds: set[str] = set()
    slowest, wide = 0.0, ""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            given = dict(report.user_properties)
            kills.update(given.get("kills", ()))
            kinds.update(given.get("kinds", ()))
            slowest = max(slowest, given.get("slowest", 0.0))
            if "slowest_wide" in given:
                wide = f"; with 2^20 cells {given['slowest_wide']:.2f} s ({given['wide']})"
    if kills:
        terminalreporter.section(f"{sum(kills.values())} kills; slowest opening {slowest:.2f} s{wide}")
        terminalreporter.line(", ".join(f"{step} {count}" for step, count in sorted(kills.items())))
        terminalreporter.line("seen: " + ", ".join(sorted(kinds)))
