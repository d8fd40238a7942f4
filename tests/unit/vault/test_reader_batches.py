"""The batches of a vault, as its ledger tells of them."""

from __future__ import annotations

import time
from pathlib import Path

import treering as tr


def test_batches_are_told_with_when_they_came(tmp_path: Path) -> None:
    schema = tr.Schema({"origin": tr.categories("EWR", "JFK")})
    began = time.time()
    with tr.Vault.create(tmp_path / "flights", schema, epsilon=1.0) as vault:
        assert vault.batches() == []
        vault.append([{"origin": "JFK"}] * 1000)
        vault.ask("origin = 'JFK'")
        vault.append([{"origin": "EWR"}] * 5)
        first, second = vault.batches()
        assert (first.rows, second.rows) == (1000, 5)
        assert began - 1 <= first.time <= second.time <= time.time() + 1
        assert vault.batches(after=first.seq) == [second]
        assert vault.batches(after=second.seq) == []
        assert tr.Vault.read(tmp_path / "flights").batches() == [first, second]
        lines = {line["seq"]: line["kind"] for line in vault.ledger()}
        assert lines[first.seq] == lines[second.seq] == "rows"
