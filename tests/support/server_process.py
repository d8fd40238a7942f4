"""`treering serve` as a process of its own, on loopback."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.office import bearer

PATIENCE = 60.0
"""Seconds for what takes one, on a machine with nothing else to do."""


class Process:
    """A running server."""

    def __init__(self, folder: Path, *options: str, files: int | None = None) -> None:
        command = [
            sys.executable,
            "-c",
            "from treering.cli.main import main; main()",
            "serve",
            str(folder),
            "--port",
            "0",
        ]
        if files is not None:  # As many file descriptors as it may have.
            command = ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self.url, self.token = "", ""
        self._listening = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._listening.wait(PATIENCE)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.lines.append(line)
                if "token, shown this once" in line:
                    self.token = line.rpartition(" ")[2].strip()
                if "listening at" in line:
                    self.url = line.rpartition(" ")[2].strip()
                    self._listening.set()
        self._listening.set()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        return code

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        headers = bearer(token or self.token)
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, trust_env=False, **options)


@contextmanager
def started(folder: Path, *options: str, files: int | None = None) -> Iterator[Process]:
    """A server that is ended in the end."""
    process = Process(folder, *options, files=files)
    try:
        assert process.url, "".join(process.lines)
        yield process
    finally:
        process.end()
