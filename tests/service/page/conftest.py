"""One browser and one server in a test process; every test has visitors of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser

from support.browsing import Served, Visits, browsing, new_vault, serving
from support.programs import leaving_out


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Leave a test out if there is no browser on this machine."""
    return (yield from leaving_out())


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="session")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(new_vault(tmp_path_factory.mktemp("served"))) as running:
        yield running


@pytest.fixture
def visits(browser: Browser, served: Served) -> Iterator[Visits]:
    made = Visits(browser, served)
    yield made
    assert made.close() == []
