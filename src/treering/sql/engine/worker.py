"""The program of a worker: statements come on standard input, results go to standard output.

It is started by `treering.sql.engine.workers` as a process of its own, ends with its parent, and limits itself: its
address space grows by a fixed amount at most, and a statement has so much processor time and no more.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import duckdb
import pyarrow as pa

from treering.errors import QueryError, TimeLimit
from treering.sql.engine.database import opened, selected
from treering.sql.engine.frames import STARTED, Message, as_bytes, as_table, encoded, received
from treering.sql.engine.limits import Limits, TooLargeError

_MOST_READ: Final = 2**40
"""The parent is trusted: it may send tables of any size."""
_MEMORY: Final = Path("/proc/self/statm")
_WORN: Final = 4
"""A process that has kept this part of a statement's memory is to be replaced: the next one could not have it all."""


def main(arguments: Sequence[str]) -> None:
    """Answer messages until there are no more. The arguments are those of `Limits`, in their order."""
    seconds, memory, rows, size = arguments
    limits = Limits(float(seconds), int(memory), int(rows), int(size))
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with opened(limits) as connection:  # What is taken once is no part of a statement's memory.
        as_bytes(selected(connection, "SELECT * FROM t", {"t": pa.table({"x": [1]})}, limits, lambda: None))
    first = _size()
    if first:
        resource.setrlimit(resource.RLIMIT_AS, (first + limits.memory, first + limits.memory))
    _serve(source, sink, limits, first + limits.memory // _WORN)


def _serve(source: BinaryIO, sink: BinaryIO, limits: Limits, worn: int) -> None:
    """Reply to messages until there are no more; a reply says when the process has grown beyond ``worn`` bytes."""

    def read(length: int) -> bytes:
        data = source.read(length)
        if len(data) < length:
            raise EOFError
        return data

    while True:
        with opened(limits) as connection:  # ahead of need, for one statement
            try:
                message = received(read, _MOST_READ)
            except EOFError:
                return
            sink.write(STARTED)
            sink.flush()
            header, parts = _reply(connection, message, limits)
            sink.writelines(encoded({**header, "worn": _size() > worn}, parts))
            sink.flush()


def _reply(
    connection: duckdb.DuckDBPyConnection, message: Message, limits: Limits
) -> tuple[dict[str, str], list[memoryview]]:
    """The result of a statement, or why there is none."""
    _limit_time(float(message.header["seconds"]))
    try:
        table = selected(connection, message.header["statement"], _tables(message), limits, lambda: None)
        return {"kind": "table"}, [as_bytes(table)]
    except (TooLargeError, MemoryError, pa.ArrowMemoryError):
        return {"kind": "memory"}, []
    except QueryError as error:
        return {"kind": "time" if isinstance(error, TimeLimit) else "refused", "error": str(error)}, []


def _tables(message: Message) -> dict[str, pa.Table]:
    return {name: as_table(part) for name, part in zip(message.header["tables"], message.parts, strict=True)}


def _size() -> int:
    """The size of the address space in bytes; 0 where the system does not tell."""
    return int(_MEMORY.read_text().split()[0]) * resource.getpagesize() if _MEMORY.exists() else 0


def _limit_time(seconds: float) -> None:
    """The kernel kills this process if it works for longer than this from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _end_with_parent() -> None:
    """End at once, also in the middle of a statement, when the parent's end of standard input is closed."""
    poll = select.poll()
    poll.register(0, select.POLLHUP)
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
