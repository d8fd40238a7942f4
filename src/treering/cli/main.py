"""The program `treering`: all commands in one, its exit codes and its help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from treering.cli import ask, audit, bench, create, demo, look, mcp, plan, refine, rows, serve, shell, synth
from treering.cli.asking import publish
from treering.cli.output import INTERRUPTED, fail

STOPPED: Final = (
    "interrupted. Nothing was lost: what a vault has on record stays, and what is not there yet can be done again"
)


class Commands(TyperGroup):
    """The group of all commands: an error becomes one line and an exit code, and help is quick."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code."""
        given = list(sys.argv[1:] if args is None else args) or ["--help"]
        name = prog_name or "treering"
        if len(given) == 2 and given[0] in self.commands and given[1] == "--help":
            self._help(name, given[0])
        try:
            code = super().main(given, name, complete_var, False, windows_expand_args, **extra)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except Exception as error:
            fail(error)
        if code == INTERRUPTED:  # typer makes this code of an interrupt within a command
            typer.echo(f"treering: {STOPPED}", err=True)
        sys.exit(code if isinstance(code, int) else 0)

    def _help(self, program: str, name: str) -> None:
        """Show a command's help without parsing its options: for that typer would load pydantic, which takes longer
        than everything else together."""
        command = self.commands[name]
        above = self.context_class(self, info_name=program)
        typer.echo(command.get_help(command.context_class(command, info_name=name, parent=above)))
        sys.exit(0)


app = typer.Typer(
    cls=Commands,
    name="treering",
    help="Differential privacy for databases that never stop growing.",
    epilog="`treering COMMAND --help` has examples. Exit codes: 2 bad input, 3 budget, 1 anything else.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group in (demo, plan, create, rows, refine, ask, publish, shell, look, synth, audit, bench, serve, mcp):
    group.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"treering {version('treering')}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Differential privacy for databases that never stop growing."""


def main() -> None:
    """Run the program: the entry point of the console script."""
    app()
