"""The program as a whole: help, exit codes, one line for every failure, and nothing heavy until it is needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fractions import Fraction

import pytest

from support.cli import refused, treering
from treering import errors
from treering.cli import output as failures
from treering.cli.main import app

COMMANDS = (
    "demo",
    "plan",
    "create",
    "append",
    "refresh",
    "erase",
    "correct",
    "discover",
    "refine",
    "ask",
    "publish",
    "shell",
    "status",
    "report",
    "ledger",
    "verify",
    "synth",
    "train",
    "audit",
    "bench",
    "serve",
    "mcp",
    "token",
)
GROUPS = ("token",)
"""Commands that have commands of their own, whose help has the examples."""
HEAVY = {"numpy", "pyarrow", "sqlglot", "duckdb", "pydantic", "numba", "apsw", "opendp", "rich"}
HEAVY |= {"fastapi", "jinja2", "starlette", "uvicorn"}

RUN = "from treering.cli.main import main; main()"


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_every_command_is_listed_and_has_help_with_examples() -> None:
    listed = treering("--help")
    assert listed.code == 0
    for name in COMMANDS:
        assert f"\n  {name}" in listed.out
        page = treering(name, "--help")
        assert page.code == 0
        assert re.match(rf"Usage: \S+ {name} ", page.out)
        if name not in GROUPS:
            assert f"  treering {name}" in page.out.partition("Examples:")[2]


def test_the_list_of_commands_has_whole_sentences_and_the_order_of_work() -> None:
    lines = treering("--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert [line for line in lines if not line.endswith((".", "?"))] == []
    assert [line for line in lines if line.endswith("...")] == []


def test_help_names_arguments_and_values_in_words() -> None:
    pages = [treering(name, "--help").out for name in COMMANDS]
    assert [page for page in pages if "<int range>" in page or "...]..." in page or "...}..." in page] == []
    assert "append [OPTIONS] {VAULT} {FILE}..." in pages[COMMANDS.index("append")]


def test_help_says_where_passwords_come_from() -> None:
    for name in ("create", "refresh"):
        page = treering(name, "--help").out
        assert "PGPASSWORD" in page
        assert "~/.pgpass" in page


def test_no_arguments_show_the_help() -> None:
    assert "Commands:" in treering().out + treering().err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["plan", "--help"], ["ask", "--help"], ["create", "--help"], ["refresh", "--help"]]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})), file=sys.stderr))\n"
        f"sys.argv = ['treering', *{arguments!r}]\n{RUN}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: treering" in done.stdout
    loaded = set(json.loads(done.stderr))
    assert "typer" in loaded
    assert HEAVY & loaded == set()


def test_the_quick_help_is_typers_own() -> None:
    """With one more argument it goes the long way, and says the same."""
    assert treering("plan", "--help").out == treering("plan", "--declared", "--help").out


def test_the_version() -> None:
    assert treering("--version").out.startswith("treering 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["--frobnicate"],
        ["plan", "--frobnicate"],
        ["plan"],
        ["plan", "--cells"],
        ["append"],
        ["audit", "--samples", "many"],
        ["audit", "--samples", "0"],
        ["serve", "vault", "--port", "99999999"],
    ],
)
def test_wrong_flags_are_one_line(arguments: list[str]) -> None:
    refused(treering(*arguments))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BudgetExceeded("epsilon", spent=Fraction(1), requested=Fraction(1), total=Fraction(1)), 3),
        (errors.Halted("over"), 3),
        (errors.QueryError("no"), 2),
        (errors.SchemaError("no"), 2),
        (errors.DataError("no"), 2),
        (errors.ParameterError("epsilon", "must be positive"), 2),
        (errors.GuaranteeError("no"), 2),
        (errors.NotAVault("no"), 2),
        (errors.VaultBusy("busy"), 1),
        (errors.EngineError("no"), 1),
        (PermissionError(13, "Permission denied", "x"), 1),
        (ZeroDivisionError("private 42"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert failures.code_of(error) == code


def test_an_unexpected_error_says_no_private_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the private value 42")

    monkeypatch.setattr("treering.theory.plan.plan", broken)
    line = refused(treering("plan", "--cells", 4, "--rows", 10, "--epsilon", 1), code=1)
    assert "unexpected ZeroDivisionError" in line
    assert "42" not in line


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("treering.theory.plan.plan", interrupted)
    done = treering("plan", "--cells", 4, "--rows", 10, "--epsilon", 1)
    assert done.code == 130
    assert "Traceback" not in done.err


def test_pointing_lines_are_left_out_of_a_pipe() -> None:
    error = errors.QueryError("this is wrong\n  SELECT x\n         ^\nSupported is y.")
    assert failures.message_of(error) == "this is wrong. Supported is y."


def test_a_message_of_a_command_is_not_prefaced() -> None:
    assert refused(treering("status", "nowhere")).startswith("treering: there is no vault at nowhere")
    assert "'--samples'" in refused(treering("audit", "--samples", "many"))


def test_notes_of_an_error_are_told_in_the_same_line() -> None:
    error = errors.DataError("this does not fit")
    error.add_note("That is in already.")
    assert failures.message_of(error) == "this does not fit. That is in already."


def test_a_real_process_ends_as_documented() -> None:
    good = in_a_process("plan", "--cells", "128", "--rows", "1e6", "--epsilon", "1", "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["best"] == "ContinualHistogram"
    bad = in_a_process("status", "nowhere")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1


def test_the_shell_can_complete_commands() -> None:
    done = in_a_process(_TREERING_COMPLETE="complete_bash", COMP_WORDS="treering pl", COMP_CWORD="1")
    assert "plan" in done.stdout.split()


def test_the_program_is_named_treering() -> None:
    assert app.info.name == "treering"
