"""Messages over pipes: a short header, and parts of bytes, each with its length before it.

A message is 8 bytes (the header's length), the header as JSON, and then the parts, whose lengths the header lists.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from treering.sql.engine.limits import SLICE, Clock

MAX_HEADER: Final = 16 * 2**20
"""The longest header, in bytes: a statement and the names of its tables."""
_CHUNK: Final = 2**20


STARTED: Final = b"!"
"""What a worker says when it has read a statement whole, before it works on it."""


class TooLongError(Exception):
    """A message that is longer than its reader reads."""


class Message(NamedTuple):
    """A header, and the parts that belong to it."""

    header: dict[str, Any]
    parts: list[bytes]


Read = Callable[[int], bytes]
"""Reads exactly as many bytes; raises EOFError if there are not as many."""


def encoded(header: Mapping[str, Any], parts: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """A message as pieces to be written one after the other."""
    text = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    return [len(text).to_bytes(8, "big"), text, *parts]


def received(read: Read, most: int) -> Message:
    """The next message; `TooLongError` if its parts have more than ``most`` bytes together, before they are read."""
    length = int.from_bytes(read(8), "big")
    if length > MAX_HEADER:
        raise TooLongError
    header = json.loads(read(length))
    lengths = [int(each) for each in header.pop("parts")]
    if sum(lengths) > most or min(lengths, default=0) < 0:
        raise TooLongError
    return Message(header, [read(each) for each in lengths])


def as_bytes(table: pa.Table) -> memoryview:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def as_table(stream: bytes) -> pa.Table:
    """The table of an Arrow stream."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


class Line:
    """The parent's ends of a child's pipes: nothing waits longer than a clock allows."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        for each in (into, out):
            os.set_blocking(each, False)

    def send(self, pieces: Sequence[bytes | memoryview], clock: Clock) -> None:
        """Write all pieces; EOFError if the child has gone."""
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                self._wait(self._into, select.POLLOUT, clock)
                try:
                    rest = rest[os.write(self._into, rest[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise EOFError from None

    def read(self, size: int, clock: Clock) -> bytes:
        """Exactly ``size`` bytes; EOFError if the child has gone."""
        data = bytearray()
        while len(data) < size:
            self._wait(self._out, select.POLLIN, clock)
            piece = os.read(self._out, min(_CHUNK, size - len(data)))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _wait(self, pipe: int, event: int, clock: Clock) -> None:
        """Wait until a pipe is ready; `TimeLimit` if that takes too long, or the caller has gone."""
        poll = select.poll()
        poll.register(pipe, event)
        while not poll.poll(1000 * min(SLICE, clock.left)):
            clock.check()
