"""PostgreSQL: late commits, a server that goes away, collations, roles and passwords."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import ibis
import pytest

from support.engines import Postgres, histogram, postgres_server
from treering.domain.attribute import categories, integers
from treering.domain.schema import Schema
from treering.errors import EngineError
from treering.trusted.engines.source import Source
from treering.trusted.memory.database import GrowingDatabase

SCHEMA = Schema({"origin": categories("EWR", "JFK", other=True), "month": integers(1, 12)})


@pytest.fixture
def flights(postgres: Postgres) -> Iterator[str]:
    postgres.execute(
        "CREATE TABLE flights (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, origin text, month int)",
        "INSERT INTO flights (origin, month) VALUES ('JFK', 1), ('EWR', 2)",
    )
    yield postgres.address("public.flights")
    postgres.execute("DROP TABLE flights CASCADE")


def test_a_transaction_that_commits_late_is_refused(postgres: Postgres, flights: str) -> None:
    """An identity is drawn when a row is inserted, and seen when its transaction commits: others may be past it."""
    db = GrowingDatabase.from_table(flights, SCHEMA)
    with postgres.connect() as late, postgres.connect() as early:
        late.autocommit = False
        late.execute("INSERT INTO flights (origin, month) VALUES ('JFK', 3)")
        early.execute("INSERT INTO flights (origin, month) VALUES ('JFK', 4)")
        assert db.refresh() == 3  # the row of `early`, which is past the one of `late`
        late.commit()
        with pytest.raises(EngineError, match="gained 1 of the 3 rows up to id = 4.*committed late.*new order values"):
            db.refresh()
        assert db.size == 3
        # What the message says: the late row, moved past the others, is taken in.
        early.execute("UPDATE flights SET id = DEFAULT WHERE id = 3")
    assert db.refresh() == 4


def test_a_server_that_goes_away_in_mid_refresh_leaves_nothing_behind() -> None:
    with postgres_server() as server:
        server.execute(
            "CREATE TABLE speed (seconds float8)",
            "INSERT INTO speed VALUES (0)",
            "CREATE TABLE kept (id int PRIMARY KEY, origin text, month int)",
            "INSERT INTO kept VALUES (1, 'JFK', 1)",
            "CREATE VIEW slow AS SELECT id, origin, month FROM kept, speed WHERE pg_sleep(seconds)::text = ''",
        )
        live = ibis.postgres.connect(host=str(server.folder), user="treering", database="postgres")
        databases = [
            GrowingDatabase.from_table(server.address("slow"), SCHEMA),
            GrowingDatabase.from_table(live.table("slow"), SCHEMA),
        ]
        server.execute("INSERT INTO kept VALUES (2, 'EWR', 2)", "UPDATE speed SET seconds = 60")
        failures: list[EngineError] = []

        def refresh(db: GrowingDatabase) -> None:
            try:
                db.refresh()
            except EngineError as error:
                failures.append(error)

        threads = [threading.Thread(target=refresh, args=(db,)) for db in databases]
        for thread in threads:
            thread.start()
        _wait_for_sleepers(server, len(threads))
        server.stop()
        for thread in threads:
            thread.join(timeout=30)
        assert len(failures) == 2
        assert all("nothing was taken in" in str(error) and error.__context__ is None for error in failures)
        with pytest.raises(EngineError, match="cannot open the database"):
            databases[0].refresh()
        with pytest.raises(EngineError, match="nothing was taken in"):
            databases[1].refresh()
        assert [db.size for db in databases] == [1, 1]
        server.start()
        server.execute("UPDATE speed SET seconds = 0")
        assert [db.refresh() for db in databases] == [2, 2]
        live.disconnect()


def _wait_for_sleepers(server: Postgres, wanted: int) -> None:
    with server.connect() as connection:
        for _ in range(300):
            asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            (found,) = connection.execute(asleep).fetchone() or (0,)
            if found == wanted:
                return
            time.sleep(0.1)
    raise AssertionError("the refreshes did not get to the server")


def test_a_collation_does_not_make_different_texts_equal(postgres: Postgres) -> None:
    postgres.execute(
        "CREATE COLLATION careless (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "CREATE TABLE collated (id int, origin text COLLATE careless, month int)",
        "INSERT INTO collated VALUES (1, 'JFK', 1), (2, 'jfk', 1), (3, 'JFK ', 1)",
    )
    found = histogram(Source.of(postgres.address("collated"), SCHEMA))
    assert found == {SCHEMA.cell({"origin": "JFK", "month": 1}): 1, 24: 2}


def test_the_padding_of_a_char_column_is_not_part_of_the_value(postgres: Postgres) -> None:
    postgres.execute(
        "CREATE TABLE padded (id int, origin char(5), month int)",
        "INSERT INTO padded VALUES (1, 'JFK', 1), (2, 'JFK  ', 1)",
    )
    found = histogram(Source.of(postgres.address("padded"), SCHEMA))
    assert found == {SCHEMA.cell({"origin": "JFK", "month": 1}): 2}


def test_a_role_that_may_only_read_is_enough(postgres: Postgres, flights: str) -> None:
    postgres.execute("CREATE ROLE reader LOGIN", "GRANT SELECT ON flights TO reader")
    reader = Source.of(postgres.address("flights", user="reader"), SCHEMA)
    assert reader.increment(None).rows == 2
    assert reader.identity == Source.of(flights, SCHEMA).identity


def test_a_table_that_is_not_there(postgres: Postgres) -> None:
    with pytest.raises(EngineError, match="there is no table nothing in the database at postgresql://"):
        Source.of(postgres.address("nothing"), SCHEMA)


def test_a_live_table_and_an_expression_over_it(postgres: Postgres, flights: str) -> None:
    live = ibis.postgres.connect(host=str(postgres.folder), user="treering", database="postgres")
    try:
        table = live.table("flights")
        source = Source.of(table, SCHEMA)
        assert source.identity == Source.of(flights, SCHEMA).identity
        assert source.address is None
        january = Source.of(table.filter(table.month == 1), SCHEMA)
        assert january.identity not in (source.identity, Source.of(table.filter(table.month == 2), SCHEMA).identity)
        first = january.increment(None)
        postgres.execute("INSERT INTO flights (origin, month) VALUES ('BOS', 1), ('JFK', 2)")
        assert histogram(january, first.watermark) == {24: 1}
        postgres.execute("ALTER TABLE flights ALTER month TYPE bigint")
        with pytest.raises(EngineError, match="another type than before: 'month'"):
            january.increment(first.watermark)
    finally:
        live.disconnect()
