"""The command line, run inside the test: what it prints and how it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from treering.cli.main import app


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON; it must have succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def treering(*arguments: object) -> Done:
    """Run a command as in a pipe."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return Done(result.exit_code, result.stdout, result.stderr)


def refused(done: Done, code: int = 2) -> str:
    """The one line that says why a command was refused."""
    assert done.code == code, (done.code, done.err)
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("treering: ")
    assert "Traceback" not in line
    return line
