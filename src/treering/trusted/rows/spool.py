"""PRIVATE: rows as bytes on a disk: batches on their way into a store, blobs of the tail, and files of parts.

A batch on its way is a `Spool`: in memory while it is small, in a file of its own from then on, so memory does not grow
with a batch.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from treering.domain.schema import Schema
from treering.errors import DamagedVault
from treering.trusted.ledger.disk import TEMPORARY, NewFile, Stage, writing
from treering.trusted.ledger.lines import SecretValue, opened, seal
from treering.trusted.ledger.named import Batch, Part, part_secret
from treering.trusted.rows.digests import RowsDigest
from treering.trusted.rows.intake import Intake, batch_schema
from treering.trusted.sealed import Sealed

LARGE: Final = 2**15
"""A batch of this many rows is a part of its own; a smaller one lies in the tail."""

GROUP: Final = 2**17
"""The rows of a row group of a part."""

_COMPRESSED: Final = 2**12
"""Blobs of more than about this many bytes are compressed."""

_READ: Final = 2**16
"""How many rows are read at a time."""

_HASHED: Final = 2**20
"""How many bytes are hashed at a time."""

PART_STEPS: Final = (Stage.PART_OPENED, Stage.PART_WRITTEN, Stage.PART_SYNCED, Stage.PART_NAMED)

_IDENTITY: Final = b"treering"
"""The key, in the footer of a part, of the random identity by which opening a vault knows the file."""


class Form(Sealed):
    """What a store keeps of its rows, for ever: the typed columns and, where persons are counted or rows have keys,
    the digests of these."""

    __slots__ = ("arrow", "persons", "schema")

    def __init__(self, schema: Schema, *, persons: bool = False, keys: bool = False) -> None:
        self.schema, self.persons = schema, persons
        self.arrow = batch_schema(schema, persons, keys)


@dataclass(frozen=True, repr=False)
class Binding(Sealed):
    """PRIVATE: what the commitment of a batch's line binds."""

    rows: str
    """The keyed digest of its rows, wherever they lie."""
    read: str
    """That of all rows that were read for it, also of those beyond the limit of their person: an idempotency key that
    comes again is known by it to be for the same rows."""
    tail: str = ""
    """The hash of its blob, for as long as it lies in the tail."""

    @property
    def text(self) -> str:
        """As the value of a secret."""
        return json.dumps([self.rows, self.read, self.tail])

    @classmethod
    def of(cls, batch: Batch, kept: Mapping[str, SecretValue]) -> Binding:
        """What a batch's commitment binds; `DamagedVault` if its secret is another."""
        return cls(*json.loads(opened(batch.secret, batch.commitment, kept)))


# -- the tail ----------------------------------------------------------------------------------------------------------


def packed(table: pa.Table) -> bytes:
    """A small batch as a blob of the tail."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if table.nbytes > _COMPRESSED else None, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(content: bytes, batch: Batch, form: Form, kept: Mapping[str, SecretValue]) -> pa.Table:
    """The batch in a blob of the tail; `DamagedVault` unless it is, bit for bit, what was written."""
    table = None
    if hashlib.sha256(content).hexdigest() == Binding.of(batch, kept).tail:
        with suppress(pa.ArrowException), pa.ipc.open_stream(pa.py_buffer(content)) as stream:
            table = stream.read_all()
    if table is None or not table.schema.equals(form.arrow) or table.num_rows != batch.rows:
        raise DamagedVault(f"batch {batch.number} in the ledger is missing, or not what was written; restore a backup")
    return table


# -- files of parts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Content(Sealed):
    """PRIVATE: what the file of a part must be."""

    length: int
    identity: str
    sha256: str

    def sealed(self, number: int, first: int, rows: int) -> tuple[Part, SecretValue]:
        """The part, and the secret that its commitment binds."""
        plain = {"length": self.length, "id": self.identity, "sha256": self.sha256}
        secret, promised = seal(part_secret(number), json.dumps(plain))
        return Part(number, first, rows, promised), secret

    @classmethod
    def of(cls, part: Part, kept: Mapping[str, SecretValue]) -> Content:
        """What a part's commitment binds; `DamagedVault` if its secret is another."""
        plain = json.loads(opened(part.secret, part.commitment, kept))
        return cls(plain["length"], plain["id"], plain["sha256"])


class PartWriter(Sealed):
    """A part under a temporary name, in row groups of `GROUP` rows."""

    __slots__ = ("_held", "_identity", "_writer", "file")

    def __init__(self, folder: Path, form: Form) -> None:
        self._identity = secrets.token_hex(16)
        self._held: list[pa.Table] = []
        self.file = NewFile(folder / f"{secrets.token_hex(8)}{TEMPORARY}", PART_STEPS)
        schema = form.arrow.with_metadata({_IDENTITY: self._identity})
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self.file, "w"), schema, compression="lz4", use_dictionary=_recurring(schema)
        )

    def add(self, table: pa.Table) -> None:
        """Add rows."""
        self._held.append(table)
        if sum(each.num_rows for each in self._held) >= GROUP:
            whole = pa.concat_tables(self._held)
            full = whole.num_rows - whole.num_rows % GROUP
            self._write(whole.slice(0, full))
            self._held = [whole.slice(full)]

    def _write(self, table: pa.Table) -> None:
        self._writer.write_table(table.replace_schema_metadata(self._writer.schema.metadata), row_group_size=GROUP)

    def end(self) -> Content:
        """Bring all of it to the disk."""
        if self._held:
            self._write(pa.concat_tables(self._held))
            self._held = []
        self._writer.close()
        pa.default_memory_pool().release_unused()  # Arrow would keep it: memory must not grow with what came before.
        self.file.sync()
        return Content(self.file.length, self._identity, self.file.sha256)


def _recurring(schema: pa.Schema) -> list[str]:
    """The columns whose values recur: texts and integers. Of others a dictionary takes as long as all else, for
    nothing."""
    return [each.name for each in schema if pa.types.is_string(each.type) or pa.types.is_integer(each.type)]


def write_part(folder: Path, form: Form, tables: Iterable[pa.Table], path: Path) -> Content:
    """Write a part under its name, durably, or nothing."""
    with writing():
        writer = PartWriter(folder, form)
        try:
            for table in tables:
                writer.add(table)
            content = writer.end()
            writer.file.name(path)
        except Exception:
            writer.file.discard()
            raise
    return content


class PartFile(Sealed):
    """The file of a part, open: also when a writer has replaced it since."""

    __slots__ = ("_content", "_file", "_form", "_parquet", "part")

    def __init__(self, folder: Path, part: Part, content: Content, form: Form) -> None:
        """Reads the footer only: `DamagedVault` unless length, identity, columns and number of rows are those of the
        part."""
        self.part, self._content, self._form = part, content, form
        try:
            self._file = pa.OSFile(str(folder / part.name))
            self._parquet = pq.ParquetFile(self._file, pre_buffer=False)
            known = self._fits(self._parquet.metadata)
        except Exception:
            known = False
        if not known:
            raise self.damaged()

    def _fits(self, footer: Any) -> bool:
        same = (self._file.size(), (footer.metadata or {}).get(_IDENTITY, b"").decode())
        columns = self._parquet.schema_arrow.remove_metadata().equals(self._form.arrow)
        rows = footer.num_rows == self.part.rows
        return columns and rows and same == (self._content.length, self._content.identity)

    def damaged(self) -> DamagedVault:
        """The error for a file that is not what the ledger's commitment binds."""
        return DamagedVault(f"part {self.part.name} is missing, or not what was written; restore a backup")

    def check(self) -> None:
        """Raise `DamagedVault` unless the file is, bit for bit, what was written."""
        for _ in self.bytes():
            pass

    def bytes(self) -> Iterator[bytes]:
        """The content of the file; `DamagedVault` at its end unless it is, bit for bit, what was written."""
        state = hashlib.sha256()
        self._file.seek(0)
        while content := self._file.read(_HASHED):
            state.update(content)
            yield content
        if state.hexdigest() != self._content.sha256:
            raise self.damaged()

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Its rows, some at a time; `DamagedVault` replaces errors that could quote a value."""
        try:
            for batch in self._parquet.iter_batches(_READ, columns=columns):
                yield pa.Table.from_batches([batch]).replace_schema_metadata()
        except Exception:
            problem = self.damaged()
        else:
            return
        raise problem


# -- batches on their way ----------------------------------------------------------------------------------------------


class Spool(Sealed):
    """PRIVATE: a batch on its way into a store: in memory below `LARGE` rows, then in a file under a temporary name.

    It is made without the store's lock. `discard` must follow, whether or not the batch was taken in.
    """

    __slots__ = ("_folder", "_form", "_held", "_writer", "content", "digest", "intake", "read", "rows")

    def __init__(self, folder: Path, form: Form) -> None:
        self._folder, self._form = folder, form
        self._held: list[pa.Table] = []
        self._writer: PartWriter | None = None
        self.intake = Intake()
        self.digest = RowsDigest()
        self.read = RowsDigest()
        """Where persons have a limit, the digest of all rows that were read: also of those beyond the limit."""
        self.rows = 0
        self.content: Content | None = None
        """What the file is, once it is written; None for a batch in memory."""

    def fill(self, tables: Iterable[pa.Table]) -> None:
        """Add all rows of a batch. After an error there is no file."""
        try:
            for table in tables:
                if table.num_rows:
                    self._add(table)
            if self._writer is not None:
                with writing():
                    self.content = self._writer.end()
        except BaseException:
            self.discard()
            raise

    def _add(self, table: pa.Table) -> None:
        self.digest.add(table)
        self.rows += table.num_rows
        if self._writer is None and self.rows < LARGE:
            self._held.append(table)
            return
        with writing():
            if self._writer is None:
                self._writer = PartWriter(self._folder, self._form)
            for each in [*self._held, table]:
                self._writer.add(each)
        self._held = []

    def binding(self, salt: bytes, blob: bytes | None = None) -> Binding:
        """What a commitment to the batch binds, with the ``blob`` of the tail if it lies there."""
        rows = self.digest.keyed(salt)
        read = self.read.keyed(salt) if self._form.persons else rows
        return Binding(rows, read, "" if blob is None else hashlib.sha256(blob).hexdigest())

    @property
    def table(self) -> pa.Table:
        """A batch in memory, whole."""
        if len(self._held) != 1:
            self._held = [pa.concat_tables([self._form.arrow.empty_table(), *self._held]).combine_chunks()]
        return self._held[0]

    def name(self, path: Path) -> None:
        """Give the file its name, durably."""
        assert self._writer is not None
        with writing():
            try:
                self._writer.file.name(path)
            except OSError:
                self._writer.file.discard()
                raise
        self._writer = None

    def discard(self) -> None:
        """Remove the file, unless it has a name."""
        if self._writer is not None:
            self._writer.file.discard()
            self._writer = None
