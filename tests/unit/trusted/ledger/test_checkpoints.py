"""A checkpoint stands for all before it, so nothing else is taken for one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import treering as tr
from support.events import NO_STEPS, codec_of
from support.journals import CODEC, Note, condensed
from treering.errors import VaultError
from treering.gate import Compared, Condensed, Event
from treering.trusted.ledger.checkpoints import Checkpoints
from treering.trusted.ledger.codec.events import EventCodec
from treering.trusted.ledger.lines import CHECKPOINT, Line, body

SCHEMA = tr.Schema({"a": tr.integers(0, 1)})


def kept(folder: Path, event: Event, codec: EventCodec) -> Line:
    """A file with some event, and a line that names it, as if it were a checkpoint."""
    content = codec.encode(event).encode() + b"\n\n"
    (folder / "00000001").write_bytes(content)
    return Line(CHECKPOINT, body(file="00000001", number=1, size=9, sha256=hashlib.sha256(content).hexdigest()), 0)


@pytest.mark.parametrize("event", [Compared(9, 0, 5, None), Condensed(9, Fraction(0), 0, (), None, NO_STEPS)])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, event: Event) -> None:
    """It has the hash that its line names, so no disk has changed it: it was written so."""
    reading = codec_of(SCHEMA)
    line = kept(tmp_path, event, reading)
    with pytest.raises(VaultError, match="checkpoint 00000001 holds something else; delete it"):
        Checkpoints(tmp_path).load(line, reading)


def test_a_file_that_is_gone_or_changed_is_no_checkpoint(tmp_path: Path) -> None:
    reading = codec_of(SCHEMA)
    line = kept(tmp_path, Compared(9, 0, 5, None), reading)
    (tmp_path / "00000001").write_bytes(b"something\n\n")
    assert Checkpoints(tmp_path).load(line, reading) is None
    (tmp_path / "00000001").unlink()
    assert Checkpoints(tmp_path).load(line, reading) is None


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_a_file_that_its_line_names(tmp_path: Path) -> None:
    event = condensed(size=12)
    line = Checkpoints(tmp_path).save(event, 3, CODEC)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    text, lengths, raw = content.split(b"\n", 2)
    assert (lengths, raw) == (b"4 3", b"one\ntwo")
    assert CODEC.decode(text.decode()) == replace(event, note=Note("all"))
    assert (line.kind, line.mechanism, line.key, line.commitment) == (CHECKPOINT, 3, "", "")
    named = {"file": "00000001", "number": 1, "size": 12, "sha256": hashlib.sha256(content).hexdigest()}
    assert (file.name, line.plain()) == ("00000001", named)
    assert Checkpoints(tmp_path).load(line, CODEC) == event


def test_the_latest_two_of_each_mechanism_are_kept(tmp_path: Path) -> None:
    store, lines = Checkpoints(tmp_path), []
    for number, mechanism in enumerate((0, 0, 1, 0, 1, 1, 0), 1):
        lines.append(store.save(condensed(word=f"{number}"), mechanism, CODEC))
        assert lines[-1].plain()["number"] == number
        assert {each.name for each in tmp_path.iterdir()} == store.named
    assert store.named == {"00000004", "00000005", "00000006", "00000007"}
    found = [store.load(line, CODEC) for line in lines]
    assert [each and each.note.word for each in found] == [None, None, None, "4", "5", "6", "7"]
    again = Checkpoints(tmp_path)
    for line in (lines[6], lines[3], lines[4]):  # In whatever order: the next number is a new one.
        again.know(line)
    assert again.named == {"00000004", "00000005", "00000007"}
    (tmp_path / "00000007").unlink()  # Somebody has deleted it already.
    assert again.save(condensed(word="8"), 0, CODEC).plain()["file"] == "00000008"
    assert again.named == {"00000004", "00000005", "00000008"}
    assert {each.name for each in tmp_path.iterdir()} == {"00000004", "00000005", "00000006", "00000008"}
