"""What a mechanism's journal has on record when a session ends before it is closed."""

from __future__ import annotations

from pathlib import Path

from support.vaults import asked, crash, frame, guarded, journal, surely_easy, surely_hard
from treering.vault.vault import Vault


def test_easy_answers_before_a_hard_one_are_on_record_with_it(tmp_path: Path) -> None:
    """The hard answer ends the run, and with it the lease: the easy ones must have been counted by then."""
    vault = guarded(tmp_path / "vault")
    easy, hard = surely_easy(vault, frame(20_000)), surely_hard(vault, frame(20_000))
    assert {answer.kind for answer in vault.ask_many([easy] * 7)} == {"easy"}
    assert journal(vault)._pending.asked == 7
    assert vault.ask(hard).kind == "hard"
    before = asked(vault)
    assert before == 8
    crash(vault)
    with Vault.open(tmp_path / "vault") as again:
        assert asked(again) >= before


def test_easy_answers_come_before_the_hard_one_that_followed_them(tmp_path: Path) -> None:
    vault = guarded(tmp_path / "vault")
    vault.ask_many([surely_easy(vault, frame(20_000))] * 7)
    vault.ask(surely_hard(vault, frame(20_000)))
    lines = [line["body"]["asked"] for line in vault.ledger() if line["kind"] == "Compared"]
    vault.close()
    assert lines[:2] == [7, 1]
