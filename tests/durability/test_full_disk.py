"""A disk that is full tells a hard answer from an easy one, which needs no commit: each crossing so seen is paid for.

The one who asks sees crossings in two ways: as hard answers, and as questions that fail while easy ones are still
answered. Both together are at most the runs on record, each of which was charged for one crossing.
"""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

import treering as tr
from support.vaults import asked, frame, guarded, kinds, surely_easy, surely_hard
from treering.vault.vault import Vault

FAULTS = int(os.environ.get("TORTURE_KILLS", "90")) // 10


def at_a_full_disk(place: Path) -> str:
    """A session in a child: an easy answer, so that there is a lease; then no file may grow. Ends without closing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            vault = Vault.open(place)
            rows = frame(20_000)
            easy, hard = surely_easy(vault, rows), surely_hard(vault, rows)
            seen: list[str] = [vault.ask(easy).kind]
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            seen.append(vault.ask(easy).kind)
            try:
                seen.append(vault.ask(hard).kind)
            except tr.VaultError:
                seen.append("failed")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            os.write(writing, " ".join(seen).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.usefixtures("warmed")
def test_every_crossing_that_a_full_disk_shows_was_paid_for(tmp_path: Path) -> None:
    """Before, the same run went on after each fault, with the same threshold: all crossings seen, none on record."""
    place = tmp_path / "vault"
    guarded(place, epsilon=100_000.0).close()
    shown, spent, questions_asked = 0, 0.0, 0
    for _ in range(FAULTS):
        assert at_a_full_disk(place) == "easy easy failed"
        shown += 1
        with Vault.open(place) as vault:
            assert vault.spent > spent, "the run that showed a crossing began after the last one"
            spent = vault.spent
            questions_asked += 2
            assert asked(vault) >= questions_asked
            found = kinds(vault)
            status = vault.status()
            assert vault.verify()["entries"] == status["entries"]
    hard = sum(1 for line in Vault.read(place).ledger() if line["kind"] == "Compared" and line["body"]["crossing"])
    ended = sum(1 for line in Vault.read(place).ledger() if line["kind"] == "RunEnded" and line["cost"] == 0.0)
    assert shown + hard <= found.count("RunStarted")
    assert shown + hard == ended + status["hard_queries"]
