"""`treering mcp`: a real program that the official client starts and talks to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from mcp import StdioServerParameters, stdio_client

from support.agents import conversation, plain, table, text
from support.cli import treering
from support.served import serving
from treering.cli import mcp
from treering.cli.asking.asked import TOKEN, token
from treering.vault.vault import Vault


def program(*arguments: object) -> Any:
    """The command as a client starts it."""
    return stdio_client(
        StdioServerParameters(
            command=sys.executable,
            args=["-c", "from treering.cli.main import main; main()", "mcp", *map(str, arguments)],
            env=dict(os.environ),
        )
    )


def test_an_agent_asks_over_standard_input_and_is_refused_past_its_quota(tmp_path: Path) -> None:
    with table(tmp_path / "v") as vault:
        total = vault.total
    calls: list[tuple[str, dict[str, Any]]] = [
        ("schema", {}),
        ("ask", {"queries": ["origin = 'JFK'"]}),
        ("ask", {"queries": ["month = 2"]}),
        ("ask", {"queries": ["mnth = 2"]}),
        ("status", {}),
    ]
    started = program(tmp_path / "v", "--quota-answers", 1, "--quota-budget", "5%")
    schema, asked, refused, mistaken, status = conversation(started, calls)
    assert [each["name"] for each in plain(schema)["attributes"]] == ["origin", "month", "late"]
    assert (asked.is_error, refused.is_error, mistaken.is_error) == (False, True, True)
    assert plain(refused)["error"] == "quota_exceeded"
    assert "did you mean month?" in text(mistaken)
    assert plain(status)["budget"]["quota_left"] == pytest.approx(0.05 * total - plain(asked)["cost"])
    with Vault.open(tmp_path / "v") as vault:
        assert vault.spent == pytest.approx(plain(asked)["cost"])


def test_an_agent_asks_a_server_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = table(tmp_path / "v")
    with serving(vault, tmp_path / "v") as served:
        monkeypatch.setenv(TOKEN, served.token(answers=1))
        calls: list[tuple[str, dict[str, Any]]] = [
            ("ask", {"queries": ["origin = 'JFK'"]}),
            ("ask", {"queries": ["month = 2"]}),
            ("sql", {"sql": "SELECT origin, COUNT(*) FROM t GROUP BY origin"}),
        ]
        asked, refused, free = conversation(program(served.url), calls)
        (answer,) = plain(asked)["answers"]
        assert answer["value"] == vault.ask("origin = 'JFK'").value
        assert plain(refused)["error"] == "quota_exceeded"
        assert "would be free" in text(refused) or "Measured already" in text(refused)
        assert (free.is_error, plain(free)["cost"], plain(free)["budget"]["answers_left"]) == (False, 0, 0)


def test_a_vault_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    done = treering("mcp", tmp_path / "nothing")
    assert (done.code, done.out) == (2, "")
    assert "there is no vault at" in done.err


@pytest.mark.parametrize("given", ["0", "101%", "1.5", "-1%", "some"])
def test_a_part_of_the_promise_is_a_share(tmp_path: Path, given: str) -> None:
    done = treering("mcp", tmp_path, "--quota-budget", given)
    assert done.code == 2


def test_parts_of_the_promise_are_read() -> None:
    assert (mcp.part("5%"), mcp.part("0.05"), mcp.part("100%")) == (0.05, 0.05, 1.0)


def test_a_server_has_its_own_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    done = treering("mcp", "http://127.0.0.1:9", "--quota-answers", 3)
    assert done.code == 2
    assert "are for folders" in done.err


def test_a_token_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from a file\n")
    monkeypatch.setenv(TOKEN, "from the environment")
    assert token(tmp_path / "token") == "from a file"
    assert token(None) == "from the environment"
    monkeypatch.delenv(TOKEN)
    with pytest.raises(typer.BadParameter, match="a server wants a token"):
        token(None)


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "find_spec", {}.get)
    done = treering("mcp", tmp_path)
    assert done.code == 2
    assert "pip install 'treering[mcp]'" in done.err
