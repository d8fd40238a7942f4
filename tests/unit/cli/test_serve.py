"""`treering serve` refuses to send tokens in the clear; `treering token` makes and revokes them."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest
import typer

import treering as tr
from support.cli import refused, treering
from treering.cli.serve import _log_to, check_binding
from treering.service.access import Register


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    tr.Vault.create(tmp_path / "v", tr.Schema({"late": tr.categories("no", "yes")}), epsilon=1.0).close()
    return tmp_path / "v"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_tls(host: str) -> None:
    check_binding(host, None, None, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_a_network_needs_tls_or_a_flag(host: str, tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="without TLS anyone"):
        check_binding(host, None, None, insecure=False)
    check_binding(host, None, None, insecure=True)
    file = tmp_path / "pem"
    file.touch()
    check_binding(host, file, file, insecure=False)


def test_half_of_tls_is_none(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="go together"):
        check_binding("127.0.0.1", tmp_path, None, insecure=False)
    with pytest.raises(typer.BadParameter, match="there is no file"):
        check_binding("127.0.0.1", tmp_path / "a", tmp_path / "b", insecure=False)


def test_the_command_refuses_too(vault: Path) -> None:
    assert "without TLS" in refused(treering("serve", str(vault), "--host", "0.0.0.0"))
    assert "no vault" in refused(treering("serve", "nowhere.treering"))


def test_a_token_is_made_listed_and_revoked(vault: Path) -> None:
    made = treering(
        *("token", "new", str(vault), "--name", "ada", "--answers", "100"),
        *("--budget", "0.05", "--days", "90", "--json"),
    )
    plain = json.loads(made.out)
    assert (plain["role"], plain["quota"]) == ("analyst", {"answers": 100, "budget": 0.05})
    register = Register(vault)
    assert register.accept(plain["token"]).name == "ada"
    register.close()
    listed = json.loads(treering("token", "list", str(vault), "--json").out)["tokens"]
    assert [each["id"] for each in listed] == [plain["id"]]
    assert plain["token"] not in json.dumps(listed)
    assert "ada" in treering("token", "list", str(vault)).out
    assert "revoked" in treering("token", "revoke", str(vault), plain["id"]).out
    refused(treering("token", "revoke", str(vault), plain["id"]))


def test_without_json_the_token_stands_alone(vault: Path) -> None:
    made = treering("token", "new", str(vault), "--name", "bob", "--role", "steward")
    assert made.out.startswith("treering_")
    assert len(made.out.split()) == 1


@pytest.mark.parametrize(
    "options", [["--role", "owner"], ["--budget", "2"], ["--days", "0"], ["--role", "steward", "--answers", "3"]]
)
def test_bad_tokens_are_refused(vault: Path, options: list[str]) -> None:
    refused(treering("token", "new", str(vault), "--name", "ada", *options))


def test_a_folder_that_is_no_vault_gets_no_tokens(tmp_path: Path) -> None:
    refused(treering("token", "new", str(tmp_path), "--name", "ada"))
    assert list(tmp_path.iterdir()) == []


def test_the_log_is_private(tmp_path: Path) -> None:
    _log_to(tmp_path / "access.log")
    log = logging.getLogger("treering.access")
    try:
        log.info("one")
        assert (tmp_path / "access.log").read_text() == "one\n"
        assert stat.S_IMODE((tmp_path / "access.log").stat().st_mode) == 0o600
    finally:
        for each in (log, logging.getLogger("treering.failures")):
            for handler in list(each.handlers):
                each.removeHandler(handler)
                handler.close()
            each.propagate = True


def test_without_what_serves_it_says_what_to_install(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "treering serve needs fastapi: pip install 'treering[server]'" in refused(treering("serve", str(vault)))
    assert "treering token needs fastapi" in refused(treering("token", "list", str(vault)))
