"""A checkpoint stands for all before it, so nothing else is taken for one."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path

import pytest

import treering as tr
from treering.errors import VaultError
from treering.gate import Compared, Condensed, Event
from treering.vault.checkpoints import Checkpoints
from treering.vault.codec.events import EventCodec
from treering.vault.kinds import codec
from treering.vault.lines import CHECKPOINT, Line, body

SCHEMA = tr.Schema({"a": tr.integers(0, 1)})


def kept(folder: Path, event: Event, codec: EventCodec) -> Line:
    """A file with some event, and a line that names it, as if it were a checkpoint."""
    content = codec.encode(event).encode() + b"\n\n"
    (folder / "00000001").write_bytes(content)
    return Line(CHECKPOINT, body(file="00000001", number=1, size=9, sha256=hashlib.sha256(content).hexdigest()), 0)


@pytest.mark.parametrize("event", [Compared(9, 0, 5, None), Condensed(9, Fraction(0), 0, (), None)])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, event: Event) -> None:
    """It has the hash that its line names, so no disk has changed it: it was written so."""
    reading = codec(SCHEMA)
    line = kept(tmp_path, event, reading)
    with pytest.raises(VaultError, match="checkpoint 00000001 holds something else; delete it"):
        Checkpoints(tmp_path, reading).load(line)


def test_a_file_that_is_gone_or_changed_is_no_checkpoint(tmp_path: Path) -> None:
    reading = codec(SCHEMA)
    line = kept(tmp_path, Compared(9, 0, 5, None), reading)
    (tmp_path / "00000001").write_bytes(b"something\n\n")
    assert Checkpoints(tmp_path, reading).load(line) is None
    (tmp_path / "00000001").unlink()
    assert Checkpoints(tmp_path, reading).load(line) is None
