"""One server and one browser for a module: while a browser is open an event loop runs in this thread, which tests of
other modules could not bear. Every test has visitors of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser

from support.browsing import Visits, browsing, new_vault
from support.programs import leaving_out
from support.served import Served, serving


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Leave a test out if there is no browser on this machine."""
    return (yield from leaving_out())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Leave a test out if it opens a browser itself that is not here."""
    return (yield from leaving_out())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served") / "flights.treering"
    with serving(new_vault(path), path) as running:
        yield running


@pytest.fixture
def visits(browser: Browser, served: Served) -> Iterator[Visits]:
    made = Visits(browser, served)
    yield made
    assert made.close() == []
