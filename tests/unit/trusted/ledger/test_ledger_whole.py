"""A transaction that is whole or not at all, whatever ends its block."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering.errors import ParameterError, VaultError
from treering.trusted.ledger.ledger import Ledger, Write, create, open_writer
from treering.trusted.ledger.lines import Line


def fail(ledger: Ledger, error: BaseException) -> None:
    with ledger.whole():
        ledger.write(Line("second", "{}"))
        raise error


def test_nothing_of_a_block_that_does_not_end_becomes_durable(tmp_path: Path) -> None:
    for number, error in enumerate((KeyboardInterrupt(), ParameterError("key", "is bad"), MemoryError())):
        ledger = create(tmp_path / f"{number}.sqlite")
        ledger.write(Line("first", "{}"))
        with pytest.raises(type(error)):
            fail(ledger, error)
        with pytest.raises(VaultError, match="interrupted in the middle of an operation"):
            ledger.write(Line("third", "{}"))
        ledger.close()
        again = open_writer(tmp_path / f"{number}.sqlite")
        assert [entry.kind for entry in again.read()] == ["first"]
        again.close()


def test_lines_of_a_block_that_ends_are_durable_together(tmp_path: Path) -> None:
    ledger = create(tmp_path / "ledger.sqlite")
    with ledger.whole():
        ledger.write_all([Write(Line("first", "{}")), Write(Line("second", "{}"))])
        assert ledger.seq == 0
    assert ledger.seq == 2
    ledger.wipe()
    assert (tmp_path / "ledger.sqlite-wal").stat().st_size == 0
    ledger.close()
