"""SQLAlchemy over a vault in a folder, and over a server: reflection, expressions, pandas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import NoSuchTableError

import treering as tr
from support.served import serving
from treering.errors import BudgetExceeded

SCHEMA = tr.Schema(
    {
        "ward": tr.categories("north", "south", other=True),
        "urgent": tr.categories(True, False),
        "floor": tr.integers(0, 9),
        "cost": tr.numbers(0, 500, step=0.01, edges=[0, 100, 500]),
        "day": tr.dates("2026-01-01", "2026-12-31"),
    }
)
ROWS = [
    {"ward": ward, "urgent": ward == "north", "floor": 1, "cost": cost, "day": "2026-03-01"}
    for ward, cost in (("north", 20.0), ("south", 150.0), ("else", 37.5))
] * 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("alchemy") / "visits.treering"
    with tr.Vault.create(place, SCHEMA, epsilon=50.0, delta=1e-6) as vault:
        vault.append(ROWS)
    return place


@pytest.fixture
def engine(folder: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"treering:///{folder}")
    yield engine
    engine.dispose()


def test_the_table_is_reflected(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["visits"]
    assert inspector.get_view_names() == []
    assert inspector.has_table("visits")
    assert not inspector.has_table("other")
    kinds = {each["name"]: type(each["type"]) for each in inspector.get_columns("visits")}
    assert kinds == {
        "ward": sa.types.TEXT,
        "urgent": sa.types.BOOLEAN,
        "floor": sa.types.BIGINT,
        "cost": sa.types.FLOAT,
        "day": sa.types.DATE,
    }
    comments = {each["name"]: each["comment"] for each in inspector.get_columns("visits")}
    assert "north" in str(comments["ward"])
    with pytest.raises(NoSuchTableError):
        inspector.get_columns("other")


def test_expressions_are_answered(engine: sa.Engine) -> None:
    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    statement = (
        sa.select(visits.c.ward, sa.func.count().label("n"), sa.func.avg(visits.c.cost).label("cost"))
        .where(visits.c.cost < 100, visits.c.ward.in_(["north", "south"]))
        .group_by(visits.c.ward)
        .order_by(sa.desc("n"))
        .limit(1)
    )
    with engine.connect() as connection:
        (row,) = connection.execute(statement).all()
    assert row.ward == "north"
    assert abs(row.n - 2000) < 50


def test_pandas_reads_through_an_engine(engine: sa.Engine) -> None:
    frame = pd.read_sql(
        sa.text("SELECT ward, COUNT(*) AS n FROM visits WHERE cost < :most GROUP BY ward ORDER BY ward"),
        engine,
        params={"most": 100},
    )
    assert list(frame.columns) == ["ward", "n", "n_margin"]
    assert abs(frame.n.sum() - 4000) < 200


def test_errors_are_sqlalchemys_with_ours_as_their_cause(folder: Path) -> None:
    engine = sa.create_engine(f"treering:///{folder}")
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError):
        connection.execute(sa.text("SELECT * FROM visits"))
    engine.dispose()


def test_a_wish_in_the_address_is_kept(tmp_path: Path) -> None:
    with tr.Vault.create(tmp_path / "poor", SCHEMA, epsilon=0.01, delta=1e-6) as vault:
        vault.append(ROWS)
    engine = sa.create_engine(f"treering:///{tmp_path / 'poor'}?within=1&mechanism=rings")
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError) as caught:
        connection.execute(sa.text("SELECT COUNT(*) AS n FROM poor WHERE cost < 50"))
    engine.dispose()
    assert isinstance(caught.value.orig, Exception)
    assert isinstance(caught.value.orig.__cause__, BudgetExceeded)


def test_a_server_is_an_address(folder: Path, tmp_path: Path) -> None:
    with serving(tr.Vault.open(folder), tmp_path) as server:
        place = urlsplit(server.url)
        address = sa.URL.create("treering+http", server.token(), None, place.hostname, place.port, "visits")
        engine = sa.create_engine(address)
        assert sa.inspect(engine).get_table_names() == ["visits"]
        frame = pd.read_sql(sa.text("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward"), engine)
        assert abs(frame.n.sum() - 6000) < 200
        with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text("SELECT nothing FROM visits GROUP BY 1"))
        engine.dispose()
