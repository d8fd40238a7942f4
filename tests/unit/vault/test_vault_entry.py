"""Every way into a vault refuses one that is closed, that has stopped, or that belongs to another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import treering as tr
from support.vaults import SCHEMA, frame
from treering.domain.language.measures import Count, Request
from treering.vault.vault import Vault

REQUEST = Request.of(SCHEMA, [Count()], by=["late"])
COUNTS = "SELECT late, COUNT(*) FROM t GROUP BY late"
WAYS: dict[str, Callable[[Vault, Path], object]] = {
    "ask": lambda vault, _: vault.ask("late = 'yes'"),
    "ask_many": lambda vault, _: vault.ask_many(["late = 'yes'", "month = 1"]),
    "price": lambda vault, _: vault.price("late = 'yes'"),
    "price_many": lambda vault, _: vault.price_many(["late = 'yes'", "month = 1"]),
    "release": lambda vault, _: vault.release(REQUEST),
    "quote": lambda vault, _: vault.quote(REQUEST),
    "sql": lambda vault, _: vault.sql(COUNTS),
    "sql that explains": lambda vault, _: vault.sql(f"EXPLAIN {COUNTS}"),
    "sql with a key": lambda vault, _: vault.sql(COUNTS, key="key"),
    "price_sql": lambda vault, _: vault.price_sql(COUNTS),
    "spent": lambda vault, _: vault.spent,
    "settled": lambda vault, _: vault.settled,
    "left": lambda vault, _: vault.left(1),
    "append": lambda vault, _: vault.append(frame(1)),
    "refresh": lambda vault, _: vault.refresh(),
    "synthesize": lambda vault, _: vault.synthesize(3),
    "model": lambda vault, _: vault.model(),
    "add": lambda vault, _: vault.add("pmwg", 0.1),
    "status": lambda vault, _: vault.status(),
    "verify": lambda vault, _: vault.verify(),
    "backup": lambda vault, place: vault.backup(place),
}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with Vault.create(tmp_path / "vault", SCHEMA, epsilon=1.0, delta=1e-9, share=0.5) as opened:
        opened.append(frame(100))
        yield opened


def test_a_closed_vault_says_so(vault: Vault, tmp_path: Path) -> None:
    vault.close()
    vault.close()
    for way in WAYS.values():
        with pytest.raises(tr.VaultError, match="the vault is closed: open it again"):
            way(vault, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_vault_that_has_stopped_says_why(vault: Vault, tmp_path: Path) -> None:
    vault._store._ledger.fail("the tests say so")
    for way in WAYS.values():
        with pytest.raises(tr.VaultError, match="the vault stopped because the tests say so"):
            way(vault, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_vault_of_another_process_is_left_alone(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: vault._store._process + 1)
        for way in WAYS.values():
            with pytest.raises(tr.VaultError, match="opened by another process: a forked child must open its own"):
                way(vault, tmp_path / "backup")
        vault.close()
    assert vault.ask("late = 'yes'").size == 100


def test_a_vault_is_closed_at_the_end_of_its_block(vault: Vault) -> None:
    with vault as same:
        assert same is vault
    with pytest.raises(tr.VaultError, match="the vault is closed"):
        vault.append(frame(1))
