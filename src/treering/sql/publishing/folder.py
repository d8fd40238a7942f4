"""Published tables as files: each refresh has a folder of its own, and ``current`` is a link to the last whole one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import csv, parquet

from treering.errors import EngineError, ParameterError
from treering.shown import harmless

CURRENT: Final = "current"
_NEXT: Final = "next"
_VERSION: Final = "version-"


class Folder:
    """A folder of Parquet or CSV files.

    A crash leaves ``current`` as it was, or as it is after the refresh. A reader that opens files one after the other
    while they are refreshed may open some of each; one that resolves the link first does not.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind

    def check(self, names: Sequence[str]) -> None:
        """See `Place`."""
        if not self._path.exists():
            return
        if not self._path.is_dir():
            raise ParameterError("address", f"must be a folder: {self._path} is a file")
        others = [each.name for each in self._path.iterdir() if not _is_ours(each)]
        if others:
            raise ParameterError("address", f"must be a folder of its own: {self._path} has {min(others)!r}")

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """See `Place`."""
        self.check(list(tables))
        try:
            self._write(tables)
        except OSError as error:
            raise EngineError(f"publishing to {self._path}: {error.strerror or error}") from None

    def _write(self, tables: Mapping[str, pa.Table]) -> None:
        self._path.mkdir(exist_ok=True)
        numbers = [int(each.name.removeprefix(_VERSION)) for each in self._path.glob(f"{_VERSION}*")]
        new = self._path / f"{_VERSION}{max(numbers, default=0) + 1}"
        new.mkdir()
        for name, table in tables.items():
            file = new / f"{name}.{self._kind}"
            if self._kind == "parquet":
                parquet.write_table(table, file)
            else:
                csv.write_csv(harmless(table), file)
            _synced(file)
        _synced(new)
        link = self._path / _NEXT
        link.unlink(missing_ok=True)
        link.symlink_to(new.name, target_is_directory=True)
        link.replace(self._path / CURRENT)
        _synced(self._path)
        for old in self._path.glob(f"{_VERSION}*"):
            if old != new:
                shutil.rmtree(old)


def _is_ours(path: Path) -> bool:
    number = path.name.removeprefix(_VERSION)
    return path.name in (CURRENT, _NEXT) or (path.name.startswith(_VERSION) and number.isdecimal())


def _synced(path: Path) -> None:
    """What was written to a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
