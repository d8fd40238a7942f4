"""What the command line asks: a vault in a folder, or one on a server, in the same words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, TypeVar

import typer

from treering.cli.output import number, writing

if TYPE_CHECKING:
    import pyarrow as pa

    from treering.answer import Answer, Price
    from treering.client import Client
    from treering.domain.language.wants import Wants
    from treering.vault.vault import Vault

TOKEN: Final = "TREERING_TOKEN"
"""The environment variable that holds the token for a server."""

Place: TypeAlias = Annotated[
    str, typer.Argument(metavar="VAULT", help="The vault's folder, or the address of a server.", show_default=False)
]
TokenFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help=f"A file with the token for a server. [default: ${TOKEN}]")
]
Costs: TypeAlias = dict[str, Any]
"""What something has cost, what is left, and what that is measured by."""

Told = TypeVar("Told")


class Asked(Protocol):
    """What is asked."""

    def ask(
        self, question: str, mechanism: str | None, key: str | None, within: float | None, wants: Wants
    ) -> _Answered:
        """The question as it was read, its answer, and the costs."""

    def guess(self, question: str, mechanism: str | None) -> tuple[str, Answer]:
        """The question as it was read, and an estimate."""

    def table(
        self, sql: str, mechanism: str | None, within: float | None, per_person: int | None
    ) -> tuple[pa.Table, int, Costs]:
        """A statement's result, the number of rows that it is about, and the costs."""

    def price(
        self, question: str | None, sql: str | None, mechanism: str | None, within: float | None, wants: Wants
    ) -> Costs:
        """What asking could cost."""


_Answered: TypeAlias = "tuple[str, Answer, Costs]"


def margin(text: str) -> float:
    """A margin as people type it: rows, or a percentage of them."""
    value = number(text.removesuffix("%"))
    if not text.endswith("%"):
        return value
    if value >= 100:
        raise typer.BadParameter(f"{text} is all rows, or more: a share of them is below 100%")
    return value / 100


def is_address(vault: str) -> bool:
    """Whether a vault is named by the address of its server."""
    return vault.partition("://")[0] in ("http", "https")


def token(file: Path | None) -> str:
    """The token, from a file or from the environment: not from the command line, which other users can see."""
    found = file.read_text(encoding="utf-8") if file is not None else os.environ.get(TOKEN, "")
    if not found.strip():
        raise typer.BadParameter(f"a server wants a token: put it into {TOKEN}, or into a file for --token-file")
    return found.strip()


@contextmanager
def asking(vault: str, token_file: Path | None) -> Iterator[Asked]:
    """The vault in this folder or at this address."""
    if is_address(vault):
        from treering.client import connect

        with connect(vault, token(token_file)) as client:
            yield _There(client)
        return
    with writing(Path(vault)) as opened:
        yield _Here(opened)


class _Here:
    """A vault in a folder."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def ask(
        self, question: str, mechanism: str | None, key: str | None, within: float | None, wants: Wants
    ) -> _Answered:
        (query,) = self._vault.queries([question], mechanism)
        given: Any = {"count": wants.count, "per_person": wants.per_person}
        answer, costs = self._paid(lambda: self._vault.ask(query, mechanism, key, within, **given))
        return str(query), answer, costs

    def guess(self, question: str, mechanism: str | None) -> tuple[str, Answer]:
        (query,) = self._vault.queries([question], mechanism)
        return str(query), self._vault.ask(query, mechanism, estimate=True)

    def table(
        self, sql: str, mechanism: str | None, within: float | None, per_person: int | None
    ) -> tuple[pa.Table, int, Costs]:
        table, costs = self._paid(lambda: self._vault.sql(sql, within, mechanism, per_person=per_person))
        return table, self._vault.size, costs

    def price(
        self, question: str | None, sql: str | None, mechanism: str | None, within: float | None, wants: Wants
    ) -> Costs:
        if sql is not None:
            price = self._vault.price_sql(sql, within, mechanism, per_person=wants.per_person)
        else:
            count, cap = wants.count, wants.per_person
            price = self._vault.price_many([question or ""], mechanism, within, count=count, per_person=cap)
        return {**price._asdict(), **self._promise()}

    def _paid(self, asked: Callable[[], Told]) -> tuple[Told, Costs]:
        """What asking gives, and what it has cost."""
        vault = self._vault
        newest = max(1, vault.size)  # It pays for what earlier rows have paid for before.
        before = vault.left(newest)
        told = asked()
        cost, remaining = before - vault.left(newest), vault.total - vault.spent
        return told, {"cost": max(0.0, cost), "remaining": max(0.0, remaining), **self._promise()}

    def _promise(self) -> Costs:
        """What costs are measured by, and whether there are any more."""
        vault = self._vault
        epsilon = float(vault.promise.epsilon)
        return {"unit": vault.unit, "total": vault.total, "epsilon": epsilon, "settled": vault.settled}


class _There:
    """A vault on a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(
        self, question: str, mechanism: str | None, key: str | None, within: float | None, wants: Wants
    ) -> _Answered:
        given: Any = {"count": wants.count, "per_person": wants.per_person, "within": within, "mechanism": mechanism}
        (answer,), cost = self._client.ask_for([question], key=key, **given)
        return question, answer, self._costs(cost)

    def guess(self, question: str, mechanism: str | None) -> tuple[str, Answer]:
        return question, self._client.ask(question, mechanism=mechanism, estimate=True)

    def table(
        self, sql: str, mechanism: str | None, within: float | None, per_person: int | None
    ) -> tuple[pa.Table, int, Costs]:
        table, size, cost = self._client.sql_for(sql, within, mechanism, per_person=per_person)
        return table, size, self._costs(cost)

    def price(
        self, question: str | None, sql: str | None, mechanism: str | None, within: float | None, wants: Wants
    ) -> Costs:
        price: Price
        if sql is not None:
            price = self._client.price_sql(sql, within, mechanism, per_person=wants.per_person)
        else:
            given: Any = {"count": wants.count, "per_person": wants.per_person}
            price = self._client.price_many([question or ""], within=within, mechanism=mechanism, **given)
        return {**price._asdict(), **self._promise(self._client.status())}

    def _costs(self, cost: float) -> Costs:
        status = self._client.status()
        return {"cost": cost, "remaining": status["remaining"], **self._promise(status)}

    def _promise(self, status: dict[str, Any]) -> Costs:
        return {name: status[name] for name in ("unit", "total", "epsilon", "settled")}
