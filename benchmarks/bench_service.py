"""The server: batches of free answers over HTTP, against the vault's own `ask_many` with the same texts in one process.

The server is a process of its own, as in life, and the client that sends the batches is another. The claim is that at
least 70% of the rate is left: a ratio of 1 / 0.7.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.harness import Result, ratio
from treering.domain.attribute import bins, categories, integers
from treering.domain.schema import Schema
from treering.vault.vault import Vault

SCHEMA: Final = Schema(
    {
        "origin": categories("EWR", "JFK", "LGA"),
        "month": integers(1, 12),
        "delay": bins([-1440, 0, 15, 60, 1440], missing=True),
    }
)
TEXTS: Final = [
    f"origin = '{origin}' AND month >= {month} AND delay >= {delay}"
    for origin, month, delay in itertools.product(("EWR", "JFK", "LGA"), range(1, 13), (0, 15, 60))
][:100]
ROWS: Final = 10_000
LIMIT: Final = 1 / 0.7
KINDS: Final = ("rings", "pmwg")


def results() -> Iterator[Result]:
    """Ours and the reference answer the same texts from equal vaults."""
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as place:
            folders = [Path(place) / name for name in ("served", "own")]
            for folder in folders:
                _filled(folder, kind)
            with _served(folders[0]) as (url, token), Vault.open(folders[1]) as vault:
                ask = _asking(url, token)
                name = f"100 free answers over HTTP against ask_many ({kind})"
                yield ratio(name, ask, partial(vault.ask_many, TEXTS), limit=LIMIT, count=len(TEXTS))


def _filled(folder: Path, kind: str) -> None:
    """A vault that has answered the texts before."""
    rows = [{"origin": "JFK", "month": row % 12 + 1, "delay": row % 90} for row in range(ROWS)]
    with Vault.create(folder, SCHEMA, epsilon=1.0, delta=1e-9, mechanism=kind) as vault:
        vault.append(rows)
        vault.ask_many(TEXTS)


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, str]]:
    """A server of this vault: its address, and a token."""
    command = [sys.executable, "-c", "from treering.cli.main import main; main()", "serve", str(folder), "--port", "0"]
    log = ["--access-log", str(folder / "access.log")]
    with subprocess.Popen([*command, *log], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        token, url = (process.stderr.readline().rpartition(" ")[2].strip() for _ in range(2))
        try:
            yield url, token
        finally:
            process.terminate()


def _asking(url: str, token: str) -> Callable[[], object]:
    """Asks all texts in one request."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"queries": TEXTS}).encode()

    def ask() -> object:
        request = urllib.request.Request(f"{url}/api/v1/ask", body, headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            told = json.load(response)
        assert told["cost"] == 0
        return told

    return ask
