"""What the commands about a vault share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

if TYPE_CHECKING:
    from treering.vault.reader import VaultReader
    from treering.vault.vault import Vault

VaultPath: TypeAlias = Annotated[Path, typer.Argument(metavar="VAULT", help="The vault's folder.", show_default=False)]
MechanismName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which of the vault's mechanisms. [default: the first]")
]
OnInvalid: TypeAlias = Annotated[
    str, typer.Option(metavar="refuse|drop", help="What to do about rows that do not fit the schema.")
]


def check_vault(path: Path) -> None:
    """Refuse a path where there is nothing, before anything is loaded."""
    if not path.exists():
        raise typer.BadParameter(f"there is no vault at {path}; `treering create` makes one")
    if not path.is_dir():
        raise typer.BadParameter(f"{path} is a file; a vault is a folder")


@contextmanager
def writing(path: Path) -> Iterator[Vault]:
    """A vault, open for asking and appending."""
    check_vault(path)
    from treering.vault.vault import Vault

    with Vault.open(path) as vault:
        yield vault


def reading(path: Path) -> VaultReader:
    """A vault, for looking: beside a writer, if there is one."""
    check_vault(path)
    from treering.vault.vault import Vault

    return Vault.read(path)


def origin(path: Path) -> dict[str, Any]:
    """How a vault was made, from the first line of its ledger: public, and the same for ever."""
    made: dict[str, Any] = next(reading(path).ledger())["body"]
    return made


def table_of(made: dict[str, Any]) -> str | None:
    """Where the rows of a vault stay, if that is a table of another engine: its address, or the name of one that has
    none."""
    source = made["source"]
    return None if source is None else source["address"] or source["identity"]


def refuse_or_drop(given: str) -> Literal["refuse", "drop"]:
    """What to do about rows that do not fit."""
    if given not in ("refuse", "drop"):
        raise typer.BadParameter('--on-invalid is "refuse" or "drop"')
    return "drop" if given == "drop" else "refuse"


def amount(value: float) -> str:
    """An amount of budget; what rounding leaves of nothing is nothing.

    >>> amount(0.12345678), amount(2e-18)
    ('0.1235', '0')
    """
    return f"{value:.4g}" if value > 1e-15 else "0"


def unit(name: str, value: float) -> str:
    """An amount of budget and its unit."""
    return f"{name} {amount(value)}"
