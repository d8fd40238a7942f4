"""Data sets that treering was not made for, as a newcomer takes them: a schema by ``--infer``, a vault, 20 questions.

    python -m experiments.newcomer_datasets [--quick] [--seed N]

The files are in public packages: diamonds (plotnine), a glucose monitor's readings, share prices and a shop's orders
(bokeh_sampledata), and countries (plotly). The first two packages are installed into a folder of their own, inside
.venv, from requirements/datasets.txt; nothing of them is imported. The quick run takes the countries only. Noise is all
that is random: a seed changes nothing.

The program drafts the schema from the file, which is public, makes a vault with ε = 1 and δ = 10^-6, and takes the
file in. The questions are SQL as one would write it for DuckDB, which answers the same statements on the same file.

Claimed, of each data set: the draft can be created and takes in every row, and every question is answered, at the price
that was quoted. Of all together: numbers of groups that have rows keep their margins, but for 10% of them (quick: 30%,
as they are only some 90; if each is outside with 5%, that has a chance below 1e-9).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

import treering as tr
from experiments.claims import Claims
from experiments.options import options
from treering.shown import MARGIN

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = Path(sys.prefix) / "datasets"
PROGRAM: Final = (sys.executable, "-c", "from treering.cli.main import main; main()")
OUTSIDE, QUICK_OUTSIDE = 0.1, 0.3


@dataclass(frozen=True)
class DataSet:
    """A file of a package, and questions about it; ``options`` are how DuckDB reads it: one has lines that end in two
    ways."""

    name: str
    package: str
    file: str
    questions: tuple[str, ...]
    options: str = ""

    @property
    def path(self) -> Path:
        """Where the file is, if the package is installed."""
        found = find_spec(self.package)
        inside = found is not None and found.submodule_search_locations
        return (Path(inside[0]) if inside else FOLDER / self.package) / self.file


COUNTRIES: Final = DataSet(
    "countries",
    "plotly",
    "package_data/datasets/gapminder.csv.gz",
    (
        "SELECT COUNT(*) AS n FROM countries",
        "SELECT continent, COUNT(*) AS n FROM countries GROUP BY continent",
        "SELECT continent, AVG(lifeExp) AS expectancy FROM countries GROUP BY continent",
        "SELECT continent, SUM(pop) AS people FROM countries GROUP BY continent",
        "SELECT year, COUNT(*) AS n FROM countries GROUP BY year ORDER BY year",
        "SELECT year, AVG(lifeExp) AS expectancy FROM countries GROUP BY year ORDER BY year",
        "SELECT COUNT(*) AS n FROM countries WHERE lifeExp >= 70",
        "SELECT COUNT(*) AS n FROM countries WHERE lifeExp < 50 AND continent = 'Africa'",
        "SELECT continent, COUNT(*) FILTER (WHERE lifeExp >= 60) AS n FROM countries GROUP BY continent",
        "SELECT COUNT(*) AS n FROM countries WHERE year BETWEEN 1990 AND 2007",
        "SELECT COUNT(*) AS n FROM countries WHERE continent IN ('Asia', 'Europe')",
        "SELECT COUNT(*) AS n FROM countries WHERE continent LIKE 'A%'",
        "SELECT AVG(gdpPercap) AS gdp FROM countries",
        "SELECT continent, AVG(gdpPercap) AS gdp FROM countries WHERE year > 1980 GROUP BY continent",
        "SELECT COUNT(*) AS n FROM countries WHERE gdpPercap >= 20000",
        "SELECT COUNT(*) AS n FROM countries WHERE centroid_lat < 0",
        "SELECT continent, COUNT(*) AS n FROM countries WHERE centroid_lon >= 0 GROUP BY continent",
        "SELECT COUNT(*) AS n, AVG(lifeExp) AS expectancy FROM countries WHERE continent = 'Europe'",
        "SELECT SUM(CASE WHEN lifeExp >= 60 THEN 1 ELSE 0 END) AS n FROM countries",
        "SELECT continent, year, COUNT(*) AS n FROM countries WHERE year >= 1987 GROUP BY continent, year",
    ),
)
DIAMONDS: Final = DataSet(
    "diamonds",
    "plotnine",
    "data/diamonds.csv",
    (
        "SELECT COUNT(*) AS n FROM diamonds",
        "SELECT cut, COUNT(*) AS n FROM diamonds GROUP BY cut",
        "SELECT color, clarity, COUNT(*) AS n FROM diamonds GROUP BY color, clarity",
        "SELECT cut, AVG(price) AS price FROM diamonds GROUP BY cut",
        "SELECT color, AVG(carat) AS carat, SUM(carat) AS carats FROM diamonds GROUP BY color",
        "SELECT COUNT(*) AS n FROM diamonds WHERE price >= 10000",
        "SELECT COUNT(*) AS n FROM diamonds WHERE carat >= 1 AND carat < 2",
        "SELECT cut, COUNT(*) FILTER (WHERE price >= 5000) AS n FROM diamonds GROUP BY cut",
        "SELECT cut, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM diamonds GROUP BY cut",
        "SELECT clarity, SUM(price) AS worth FROM diamonds GROUP BY clarity ORDER BY clarity",
        "SELECT AVG(depth) AS depth, AVG(x) AS x, AVG(y) AS y, AVG(z) AS z FROM diamonds",
        "SELECT COUNT(*) AS n FROM diamonds WHERE cut IN ('Ideal', 'Premium') AND color <> 'J'",
        "SELECT COUNT(*) AS n FROM diamonds WHERE clarity LIKE 'VV%'",
        "SELECT color, AVG(price) AS price FROM diamonds WHERE cut = 'Ideal' GROUP BY color",
        "SELECT CASE WHEN carat >= 1 THEN 'large' ELSE 'small' END AS size, COUNT(*) AS n FROM diamonds GROUP BY 1",
        "SELECT cut, SUM(price) / COUNT(*) AS price FROM diamonds GROUP BY cut",
        "SELECT COUNT(*) AS n FROM diamonds WHERE NOT (price >= 5000 OR carat >= 1)",
        "SELECT cut, color, COUNT(*) AS n FROM diamonds WHERE price >= 15000 GROUP BY cut, color",
        "WITH e AS (SELECT cut FROM diamonds WHERE color = 'E') SELECT cut, COUNT(*) AS n FROM e GROUP BY cut",
        'SELECT AVG("table") AS tables FROM diamonds WHERE depth >= 60 AND depth < 65',
    ),
)
GLUCOSE: Final = DataSet(
    "glucose",
    "bokeh_sampledata",
    "_data/CGM.csv.gz",
    (
        "SELECT COUNT(*) AS n FROM glucose",
        "SELECT AVG(glucose) AS mean FROM glucose",
        "SELECT date_trunc('month', datetime) AS month, COUNT(*) AS n FROM glucose GROUP BY 1 ORDER BY 1",
        "SELECT date_trunc('month', datetime) AS month, AVG(glucose) AS mean FROM glucose GROUP BY 1 ORDER BY 1",
        "SELECT date_trunc('year', datetime) AS year, COUNT(*) AS n FROM glucose GROUP BY 1",
        "SELECT EXTRACT(year FROM datetime) AS year, COUNT(*) AS n FROM glucose GROUP BY 1",
        "SELECT COUNT(*) AS n FROM glucose WHERE datetime >= '2010-06-01' AND datetime < '2010-07-01'",
        "SELECT AVG(glucose) AS mean FROM glucose WHERE datetime >= DATE '2010-09-01'",
        "SELECT COUNT(*) AS n FROM glucose WHERE glucose >= 250",
        "SELECT COUNT(*) AS n FROM glucose WHERE glucose < 50",
        "SELECT COUNT(*) AS n FROM glucose WHERE isig IS NULL",
        "SELECT AVG(isig) AS mean FROM glucose",
        "SELECT SUM(glucose) AS total, COUNT(glucose) AS n FROM glucose",
        "SELECT date_trunc('quarter', datetime) AS quarter, AVG(glucose) AS mean FROM glucose GROUP BY 1",
        "SELECT COUNT(*) FILTER (WHERE glucose >= 200) AS high, COUNT(*) AS n FROM glucose",
        "SELECT date_trunc('month', datetime) AS month, COUNT(*) AS n FROM glucose WHERE glucose >= 300 GROUP BY 1",
        "SELECT COUNT(*) AS n FROM glucose WHERE glucose >= 100 AND glucose < 150",
        "SELECT COUNT(*) * 5 / 60.0 AS hours FROM glucose WHERE glucose >= 300",
        "SELECT COUNT(*) AS n FROM glucose WHERE datetime < '2010-04-01' OR datetime >= '2011-02-01'",
        "SELECT date_trunc('month', datetime) AS m, AVG(isig) AS mean FROM glucose GROUP BY m HAVING COUNT(*) > 2000",
    ),
    "nullstr = ['nil', ''], strict_mode = false",
)
SHARES: Final = DataSet(
    "shares",
    "bokeh_sampledata",
    "_data/stocks.csv.gz",
    (
        "SELECT COUNT(*) AS n FROM shares",
        'SELECT "Ticker", COUNT(*) AS n FROM shares GROUP BY "Ticker"',
        "SELECT Ticker, AVG(Close) AS close FROM shares GROUP BY Ticker",
        "SELECT Ticker, AVG(Volume) AS volume FROM shares GROUP BY Ticker",
        'SELECT "Ticker", AVG("Adj Close") AS adjusted FROM shares GROUP BY "Ticker"',
        "SELECT date_trunc('year', Date) AS year, COUNT(*) AS n FROM shares GROUP BY 1 ORDER BY 1",
        "SELECT date_trunc('year', Date) AS year, AVG(Close) AS close FROM shares WHERE Ticker = 'AAPL' GROUP BY 1",
        "SELECT EXTRACT(year FROM Date) AS year, SUM(Volume) AS volume FROM shares GROUP BY 1 ORDER BY 1",
        "SELECT COUNT(*) AS n FROM shares WHERE Date BETWEEN '2008-01-01' AND '2008-12-31'",
        "SELECT COUNT(*) AS n FROM shares WHERE Date >= '2010-01-01' AND Ticker IN ('IBM', 'MSFT')",
        "SELECT COUNT(*) AS n FROM shares WHERE Close >= 100",
        "SELECT Ticker, COUNT(*) FILTER (WHERE High >= 200) AS n FROM shares GROUP BY Ticker",
        "SELECT AVG(Open) AS open, AVG(High) AS high, AVG(Low) AS low FROM shares",
        "SELECT Ticker, COUNT(*) AS n FROM shares WHERE Date < '2004-01-01' GROUP BY Ticker ORDER BY n DESC",
        "SELECT COUNT(*) AS n FROM shares WHERE Ticker = 'GOOG' AND Close < 500",
        "SELECT date_trunc('year', Date) AS year, Ticker, COUNT(*) AS n FROM shares GROUP BY 1, 2",
        "SELECT COUNT(*) AS n FROM shares WHERE Volume >= 100000000",
        "SELECT Ticker, AVG(High) - AVG(Low) AS range FROM shares GROUP BY Ticker",
        "SELECT date_trunc('quarter', Date) AS q, COUNT(*) AS n FROM shares WHERE Date >= '2012-01-01' GROUP BY 1",
        "SELECT COUNT(*) AS n FROM shares WHERE Ticker LIKE '%B%' OR Low < 100",
    ),
)
ORDERS: Final = DataSet(
    "orders",
    "bokeh_sampledata",
    "_data/SampleSuperstore.csv.gz",
    (
        "SELECT COUNT(*) AS n FROM orders",
        "SELECT Region, COUNT(*) AS n FROM orders GROUP BY Region",
        "SELECT Category, SUM(Sales) AS sales FROM orders GROUP BY Category",
        'SELECT "Sub-Category", COUNT(*) AS n FROM orders GROUP BY "Sub-Category" ORDER BY 2 DESC',
        'SELECT "Ship Mode", AVG(Profit) AS profit FROM orders GROUP BY "Ship Mode"',
        "SELECT Segment, Region, COUNT(*) AS n FROM orders GROUP BY Segment, Region",
        "SELECT SUM(Profit) AS profit, SUM(Sales) AS sales FROM orders",
        "SELECT Region, AVG(Discount) AS discount FROM orders GROUP BY Region",
        "SELECT Quantity, COUNT(*) AS n FROM orders GROUP BY Quantity ORDER BY Quantity",
        "SELECT AVG(Quantity) AS quantity FROM orders WHERE Category = 'Technology'",
        "SELECT COUNT(*) AS n FROM orders WHERE Discount >= 0.5",
        "SELECT COUNT(*) AS n FROM orders WHERE Profit < 0 AND Category = 'Furniture'",
        "SELECT State, COUNT(*) AS n FROM orders WHERE Region = 'West' GROUP BY State",
        "SELECT COUNT(*) AS n FROM orders WHERE State IN ('California', 'New York', 'Texas')",
        "SELECT Category, COUNT(*) AS n, AVG(Quantity) AS quantity FROM orders GROUP BY Category",
        "SELECT COUNT(*) AS n FROM orders WHERE Sales >= 5000",
        "SELECT COUNT(*) AS n FROM orders WHERE \"Ship Mode\" = 'Same Day' AND Segment <> 'Consumer'",
        "SELECT Region, COUNT(*) FILTER (WHERE Profit < 0) AS losses, COUNT(*) AS n FROM orders GROUP BY Region",
        'SELECT COUNT(*) AS n FROM orders WHERE "Postal Code" >= 80000',
        "SELECT Segment, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY n DESC LIMIT 2",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and print the claims; 0 if they hold."""
    quick = options(__doc__, arguments).quick
    if not quick:
        install()
    claims, outside = Claims(), list[bool]()
    for data in (COUNTRIES,) if quick else (COUNTRIES, DIAMONDS, GLUCOSE, SHARES, ORDERS):
        with tempfile.TemporaryDirectory() as folder:
            taken(data, Path(folder) / data.name, claims)
            outside += asked(data, Path(folder) / data.name, claims)
    most = QUICK_OUTSIDE if quick else OUTSIDE
    claims.at_most(f"part of {len(outside):,} numbers outside their margins", sum(outside) / len(outside), most)
    return claims.exit_code()


def install() -> None:
    """Put the packages into their folder."""
    uv, listed = Path(sys.prefix) / "bin" / "uv", ROOT / "requirements" / "datasets.txt"
    command: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--target",
        FOLDER,
        "--no-deps",
        "--require-hashes",
        "-r",
        listed,
    ]
    subprocess.run(command, check=True)


def taken(data: DataSet, vault: Path, claims: Claims) -> None:
    """Draft, create and append with the program, as the draft itself says."""
    schema = vault.with_suffix(".toml")
    _run("create", vault, "--infer", data.path)
    _run("create", vault, "--schema", schema, "--epsilon", 1, "--delta", 1e-6)
    _run("append", vault, data.path)
    rows, size = truth(data, f"SELECT COUNT(*) AS n FROM {data.name}")[0]["n"], tr.Vault.read(vault).status()["size"]
    claims.at_most(f"{data.name}: rows that were left out of {rows:,}", rows - size, 0)


def asked(data: DataSet, vault: Path, claims: Claims) -> list[bool]:
    """Ask all questions; whether each number that is told is further from the truth than its margin."""
    refused, astray, outside = 0, 0.0, list[bool]()
    with tr.Vault.open(vault) as opened:
        for question in data.questions:
            try:
                quoted, before = opened.price_sql(question).most, opened.left(opened.size)
                found = opened.sql(question)
            except tr.TreeringError as error:
                print(f"  {question}: {error}")
                refused += 1
                continue
            astray = max(astray, abs(before - opened.left(opened.size) - quoted))
            outside += list(beyond(found, truth(data, question)))
    claims.at_most(f"{data.name}: questions that were refused of {len(data.questions)}", refused, 0)
    claims.at_most(f"{data.name}: largest difference of price and charge", astray, 1e-12)
    return outside


def truth(data: DataSet, question: str) -> list[dict[str, Any]]:
    """What DuckDB says about the file."""
    with duckdb.connect(":memory:") as connection:
        given = f", {data.options}" if data.options else ""
        connection.execute(f"CREATE VIEW {data.name} AS FROM read_csv('{data.path}'{given})")
        return [dict(row) for row in connection.sql(question).to_arrow_table().to_pylist()]


def beyond(found: pa.Table, true: list[dict[str, Any]]) -> Iterator[bool]:
    """Whether each number is further from the truth than its margin, for the groups that have rows."""
    noisy = [name for name in found.column_names if f"{name}{MARGIN}" in found.column_names]
    keys = [name for name in found.column_names if name not in noisy and not name.endswith(MARGIN)]
    there = {tuple(_plain(row[key]) for key in keys): row for row in true}
    for row in found.to_pylist():
        match = there.get(tuple(_plain(row[key]) for key in keys))
        if match is not None:
            yield from (_off(row[name], match[name], row[f"{name}{MARGIN}"]) for name in noisy)


def _off(value: float | None, true: float | None, margin: float | None) -> bool:
    if value is None or true is None:
        return value is not None or true is not None
    return abs(float(value) - float(true)) > (margin or 0.0) + 1e-9 * max(1.0, abs(float(true)))


def _plain(value: Any) -> Any:
    """A label to compare: a moment at midnight is its day."""
    return value.date() if isinstance(value, datetime) else value


def _run(*arguments: object) -> None:
    subprocess.run([*PROGRAM, *map(str, arguments)], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
