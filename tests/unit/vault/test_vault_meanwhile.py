"""Others ask while a file is read, and while the result of a statement is worked out."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import treering as tr
from treering.sql.engine.current import using
from treering.sql.engine.local import Local
from treering.trusted.rows.intake import typed_blocks

SCHEMA = tr.Schema({"late": tr.categories("no", "yes")})
ROWS = [{"late": "no"}] * 1000
PATIENCE = 60.0


class Slow:
    """Reading rows takes until `go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading, self.go = threading.Barrier(3), threading.Event()
        monkeypatch.setattr("treering.trusted.rows.parts.typed_blocks", self._read)

    def _read(self, *given: Any, **named: Any) -> Any:
        self.reading.wait(PATIENCE)
        assert self.go.wait(PATIENCE)
        return typed_blocks(*given, **named)


@pytest.mark.parametrize("key", [None, "k"])
def test_questions_do_not_wait_for_rows_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0) as vault, ThreadPoolExecutor(3) as pool:
        vault.append(ROWS)
        slow = Slow(monkeypatch)
        coming = [pool.submit(vault.append, ROWS, "refuse", key) for _ in range(2)]
        slow.reading.wait(PATIENCE)  # Both are being read.
        assert pool.submit(vault.ask, "late = 'no'").result(PATIENCE).size == 1000
        slow.go.set()
        sizes = sorted(each.result(PATIENCE) for each in coming)
        assert sizes == ([2000, 3000] if key is None else [2000, 2000]), "with one key, once"
        assert vault.size == sizes[-1]


def test_a_vault_that_was_closed_meanwhile_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0) as vault, ThreadPoolExecutor(2) as pool:
        slow = Slow(monkeypatch)
        coming = [pool.submit(vault.append, ROWS) for _ in range(2)]
        slow.reading.wait(PATIENCE)
        vault.close()
        slow.go.set()
        for each in coming:
            with pytest.raises(tr.VaultError, match="closed"):
                each.result(PATIENCE)
    assert tr.Vault.read(tmp_path / "v").status()["size"] == 0


class Waiting:
    """An engine that works nothing out of what was released until `go`."""

    def __init__(self, vault: tr.Vault) -> None:
        self._local, self._vault = Local(), vault
        self.waits, self.go = threading.Event(), threading.Event()

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """See `treering.sql.engine.current.Engine`."""
        if self._vault.spent:
            self.waits.set()
            assert self.go.wait(PATIENCE)
        return self._local.run(statement, tables)

    def together(self) -> AbstractContextManager[None]:
        """See `treering.sql.engine.current.Engine`."""
        return self._local.together()


@pytest.mark.parametrize("key", [None, "k"])
def test_questions_do_not_wait_for_a_statement_that_is_worked_out(tmp_path: Path, key: str | None) -> None:
    """When it is released, and when what was released comes again."""
    text = "SELECT late, SQRT(ABS(COUNT(*))) AS n FROM t GROUP BY late"
    with tr.Vault.create(tmp_path / "v", SCHEMA, epsilon=1.0) as vault, ThreadPoolExecutor(2) as pool:
        vault.append(ROWS)
        for _ in range(2):
            engine = Waiting(vault)

            def asked(engine: Waiting = engine) -> pa.Table:
                with using(engine):
                    return vault.sql(text, key=key)

            table = pool.submit(asked)
            assert engine.waits.wait(PATIENCE)
            assert pool.submit(vault.ask, "late = 'no'").result(PATIENCE).size == 1000
            engine.go.set()
            assert table.result(PATIENCE).num_rows == 2
