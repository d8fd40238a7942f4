"""The engines, each started once in a test process: workers of one run share nothing."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.engines import DuckDB, Embedded, Files, Postgres, PostgresStage, Stage, postgres_server
from support.programs import leaving_out, left_out
from support.spark import SparkStage, spark_session
from treering.trusted.rows import tally

ENGINES = ["duckdb", "parquet", "csv", "postgres", "spark"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Leave a test out if what it is given needs a program that is not here."""
    return (yield from leaving_out())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Leave a test out if it starts a program itself that is not here."""
    return (yield from leaving_out())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was left out: with skips hidden, too."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    for line in left_out(reasons):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(params=ENGINES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Each of the engines in turn."""
    yield from _stage(request, tmp_path)


@pytest.fixture(params=[*ENGINES, "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Each of the engines in turn, and rows that are appended, which a statement counts however few they are."""
    monkeypatch.setattr(tally, "SMALL", 0)
    yield from _stage(request, tmp_path)


def _stage(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    match request.param:
        case "embedded":
            yield Embedded()
        case "duckdb":
            yield DuckDB(folder)
        case "postgres":
            yield PostgresStage(request.getfixturevalue("postgres"), "rows")
        case "spark":
            with warnings.catch_warnings():
                # Spark's own sockets, closed when they are collected.
                warnings.simplefilter("ignore", ResourceWarning)
                yield SparkStage(request.getfixturevalue("spark"), folder)
        case kind:
            yield Files(folder, kind)
