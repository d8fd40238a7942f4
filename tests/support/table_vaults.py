"""Vaults whose rows stay in a growing table, in the middle of a run: for tests of interrupts, failures and kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from support.growing_table import SCHEMA, Content, GrowingTable
from support.vaults import BETA, DELTA, EPSILON, asked, kinds, leased
from treering.vault.vault import Vault

EASY = "month <= 6"
"""About half of the rows, by the table and by a histogram that has not learnt anything."""

LEASE = 2048
"""No lease in these tests is for more comparisons."""


def created(place: Path, table: GrowingTable) -> None:
    """A vault with the first rows of a table that grows then."""
    options: dict[str, Any] = {"alpha": 0.1, "beta": BETA, "measure_first": False, "table": table.address}
    with Vault.create(place, SCHEMA, EPSILON, DELTA, mechanism="pmwg", share=0.5, **options) as vault:
        vault.add("continual", 0.5)
        vault.refresh("drop")
        vault.ask("late = 'yes'")
    table.grow()


def opened(place: Path, table: GrowingTable) -> Vault:
    """A vault that asks the table only what it was asked before."""
    vault = Vault.open(place, wait=0)
    attached: Any = vault._store._source
    attached._source = table.known
    return vault


class Before(NamedTuple):
    """What a vault had released before a fault."""

    asked: int
    spent: float
    head: str
    lines: int


def in_a_run(vault: Vault) -> Before:
    """Ask a question that is easy, so that the vault has a lease; what is released by then."""
    assert vault.ask(EASY).kind == "easy"
    assert leased(vault) > 0
    return Before(asked(vault), vault.spent, vault.status()["head"], len(kinds(vault)))


def found(vault: Vault) -> Content:
    """What a vault has."""
    return Content(vault.size, vault.status()["dropped"], vault._store._rows.cells.marginal((0, 1)).tolist())


def check_once(vault: Vault, table: GrowingTable, before: Before, *, crashed: bool) -> None:
    """After a fault in a refresh, and an opening: a retry leaves each row in the vault once, and nothing was lost."""
    assert found(vault) in (table.before, table.after)
    assert vault.refresh("drop") == vault.refresh("drop") == table.after.size
    assert found(vault) == table.after
    assert vault.verify(before.head)["head_found"]
    assert vault.verify()["batches"] == 2
    assert kinds(vault)[before.lines :].count("rows") == 1
    assert vault.spent == before.spent
    assert 0 <= asked(vault) - before.asked <= (LEASE if crashed else 0)
