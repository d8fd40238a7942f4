"""The package's front where no extra is installed: it can be looked at whole, and what needs an extra says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.wheel import Ended, Installed

SCHEMA = 'tr.Schema({"origin": tr.categories("EWR", "JFK"), "month": tr.integers(1, 12)})'
SERVER = "postgresql://me@/air?host=/nowhere#flights"


def last_line(done: Ended) -> str:
    """What Python says last about an exception that nobody caught."""
    assert done.code == 1
    return done.err.splitlines()[-1]


def one_line(done: Ended) -> str:
    """The one line that a command leaves with."""
    assert done.code != 0
    (line,) = done.err.splitlines()
    assert line.startswith("treering: ")
    return line


def test_every_public_name_is_there(installed: Installed) -> None:
    done = installed.python("for name in dir(tr): getattr(tr, name)")
    assert done.code == 0, done.err


def test_help_shows_the_package(installed: Installed) -> None:
    done = installed.python("help(tr)")
    assert done.code == 0, done.err
    assert "Differential privacy for databases that never stop growing." in done.out
    assert "class Schema" in done.out
    assert "PrivateLogisticRegression" in installed.python("print(dir(tr.learn)); help(tr.learn)").out


def test_everything_can_be_imported_at_once(installed: Installed) -> None:
    done = installed.python("from treering import *", "print(Schema.__name__)")
    assert done.out == "Schema\n", done.err


@pytest.mark.parametrize("name", ["PrivateLogisticRegression", "PrivateMedian", "PrivateRidge", "PrivateSVC"])
def test_an_estimator_names_its_extra_as_it_is_typed_into_a_shell(installed: Installed, name: str) -> None:
    said = last_line(installed.python(f"tr.learn.{name}"))
    assert f"{name} needs scikit-learn" in said
    assert "pip install 'treering[learn]'" in said


def test_marginals_name_their_extra_as_it_is_typed_into_a_shell(installed: Installed) -> None:
    said = last_line(installed.python(f"tr.MarginalsBox(1).bind({SCHEMA})"))
    assert "MarginalsBox needs mbi" in said
    assert "pip install 'treering[marginals]'" in said


def test_measurements_of_opendp_name_their_extra(installed: Installed) -> None:
    assert "pip install 'treering[opendp]'" in last_line(installed.python("tr.from_opendp(lambda budget: None)"))


def test_a_table_in_postgres_names_its_extra(installed: Installed) -> None:
    said = last_line(installed.python(f"tr.GrowingDatabase.from_table({SERVER!r}, {SCHEMA})"))
    assert "pip install 'treering[postgres]'" in said


def test_a_vault_over_postgres_names_its_extra_in_one_line(installed: Installed) -> None:
    assert installed.python(f'{SCHEMA}.save("served.toml")').code == 0
    promise = ("--schema", "served.toml", "--epsilon", 1, "--delta", 1e-9)
    done = installed.run("treering", "create", "served.treering", *promise, "--table", SERVER)
    assert "pip install 'treering[postgres]'" in one_line(done)
    assert not (installed.folder / "served.treering").exists()


def test_the_demonstration_names_its_extra_and_leaves_nothing_behind(installed: Installed) -> None:
    done = installed.run("treering", "demo", "--out", "shown")
    assert "pip install 'treering[demo]'" in one_line(done)
    assert done.out == ""
    assert not (installed.folder / "shown").exists()


@pytest.mark.parametrize("arguments", [("serve",), ("token", "list")])
def test_the_server_names_its_extra(installed: Installed, arguments: tuple[str, ...], tmp_path: Path) -> None:
    said = one_line(installed.run("treering", *arguments, tmp_path))
    assert "pip install 'treering[server]'" in said
