"""What the commands about a vault share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from treering.vault.reader import VaultReader
    from treering.vault.vault import Vault

VaultPath: TypeAlias = Annotated[Path, typer.Argument(metavar="VAULT", help="The vault's folder.", show_default=False)]
MechanismName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which of the vault's mechanisms. [default: the first]")
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


def amount(value: float) -> str:
    """An amount of budget; what rounding leaves of nothing is nothing.

    >>> amount(0.12345678), amount(2e-18)
    ('0.1235', '0')
    """
    return f"{value:.4g}" if value > 1e-15 else "0"


def unit(name: str, value: float) -> str:
    """An amount of budget and its unit."""
    return f"{name} {amount(value)}"
