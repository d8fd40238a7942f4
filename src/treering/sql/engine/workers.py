"""The engine in processes of its own: for servers, where whoever asks may be hostile.

A worker is a subprocess that is kept warm. It is killed, and replaced, when its statement takes too long, needs too
much memory or gives too large a result, or when the caller has gone: nothing that DuckDB does can hold more than that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Final, Self

import pyarrow as pa

from treering.errors import QueryError, TimeLimit
from treering.sql.engine.frames import STARTED, Line, Message, TooLongError, as_bytes, as_table, encoded, received
from treering.sql.engine.limits import SLICE, Clock, Limits

_PROGRAM: Final = "treering.sql.engine.worker"
_INHERITED: Final = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ")
"""What a worker gets of the environment: nothing that could be secret."""
_SETTINGS: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Arrow's other pools take a gigabyte of addresses ahead of need, which no limit would then count."""
_MOST_STATEMENTS: Final = 1000
"""After this many statements a worker is replaced: memory that its allocator has kept is free again."""
_ATTEMPTS: Final = 3
"""How often a statement is given to a worker that has ended before it could read it: somebody may have killed it."""
_STARTING: Final = 20.0
"""How many seconds a statement waits for a process at most: on a busy machine a new one takes some to start."""
_PATIENCE: Final = 5.0
"""How many seconds a worker that was killed has to be gone."""


class _GoneError(Exception):
    """A process that had ended before it worked on a statement."""


class _Worker:
    """One subprocess."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._statements = 0
        arguments = (limits.seconds, limits.memory, limits.rows, limits.bytes)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **_SETTINGS},
            process_group=0,  # An interrupt at the keyboard is for the server, which then closes its workers.
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._line = Line(self._process.stdin.fileno(), self._process.stdout.fileno())

    @property
    def usable(self) -> bool:
        """Whether it lives, and is not due to be replaced."""
        return self._statements < _MOST_STATEMENTS and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def ask(self, statement: str, tables: Mapping[str, pa.Table], clock: Clock) -> Message:
        """The reply to a statement; `_GoneError` if the process has ended before it. After an error this worker is of
        no more use."""
        self._statements += 1
        seconds = min(clock.left, self._limits.seconds)
        header = {"statement": statement, "tables": list(tables), "seconds": seconds}
        try:
            self._line.send(encoded(header, [as_bytes(table) for table in tables.values()]), clock)
            self._line.read(len(STARTED), clock)
            clock.begin()
        except EOFError:
            raise _GoneError from None
        message = received(lambda size: self._line.read(size, clock), 2 * self._limits.bytes + 2**20)
        if message.header["worn"]:
            self._statements = _MOST_STATEMENTS
        return message

    def kill(self) -> None:
        """Kill the process, if it lives, and wait until it is gone. (From any thread: whoever uses it sees its end.)"""
        self._process.kill()
        self._process.wait(_PATIENCE)

    def end(self) -> None:
        """Kill the process, and close its pipes: only for who has this worker for their own."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def code(self) -> int:
        """What a process that has closed its pipes ended with: less than 0 for a signal."""
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode


class Workers:
    """A pool of subprocesses, each working out one statement at a time.

    Formal Guarantees
        A statement takes at most ``limits.seconds``, and no longer than its request has; the process that works it out
        grows by at most ``limits.memory`` bytes (on Linux); its result has at most ``limits.rows`` rows and
        ``limits.bytes`` bytes. A process has a new database for each statement. When the pool is closed, or this
        process ends, the workers end.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits: Final = Limits() if limits is None else limits
        self._room = threading.BoundedSemaphore(self.limits.processes)
        self._lock = threading.Lock()
        self._closed = False
        self._idle = [_Worker(self.limits) for _ in range(self.limits.processes)]
        self._busy: set[_Worker] = set()

    def run(self, statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a SELECT over some tables, in a database that has nothing else."""
        clock = Clock(self.limits, _STARTING)
        for _ in range(_ATTEMPTS):
            with suppress(_GoneError):
                return self._asked(statement, tables, clock)
        raise self.limits.too_large()

    def _asked(self, statement: str, tables: Mapping[str, pa.Table], clock: Clock) -> pa.Table:
        """What one worker says to a statement."""
        with self._worker(clock) as worker:
            try:
                message = worker.ask(statement, tables, clock)
            except EOFError:
                raise self._refusal(worker.code()) from None
            except TooLongError:
                raise QueryError(f"the result has more than {self.limits.bytes:,} bytes: select less") from None
            if message.header["kind"] == "memory":
                raise self.limits.too_large()
        if message.header["kind"] != "table":
            error = TimeLimit if message.header["kind"] == "time" else QueryError
            raise error(message.header["error"])
        return as_table(message.parts[0])

    def together(self) -> nullcontext[None]:
        """Runs share nothing: each has a database of its own."""
        return nullcontext()

    @property
    def pids(self) -> frozenset[int]:
        """The numbers of the processes."""
        with self._lock:
            return frozenset(worker.pid for worker in [*self._idle, *self._busy])

    def close(self) -> None:
        """End all workers; statements that are being worked out are refused."""
        with self._lock:
            self._closed = True
            idle, busy = self._idle, [*self._busy]
            self._idle = []
        for worker in idle:
            worker.end()
        for worker in busy:
            worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _worker(self, clock: Clock) -> Iterator[_Worker]:
        """A worker of one's own, as soon as one is free; replaced by a new one if the block fails."""
        while not self._room.acquire(timeout=min(SLICE, clock.left)):
            clock.check()
        try:
            worker = self._taken()
            try:
                yield worker
            except BaseException:
                worker.end()
                raise
            finally:
                self._put_back(worker)
        finally:
            self._room.release()

    def _taken(self) -> _Worker:
        """A worker that lives: one that is idle, or a new one."""
        with self._lock:
            self._check_open()
            worker = self._idle.pop() if self._idle else None
        if worker is not None and not worker.usable:
            worker.end()
            worker = None
        if worker is None:
            worker = self._started()
        with self._lock:
            self._busy.add(worker)
        return worker

    def _started(self) -> _Worker:
        try:
            return _Worker(self.limits)
        except OSError as error:
            raise QueryError(f"no process can be started for the statement: {error.strerror}") from None

    def _put_back(self, worker: _Worker) -> None:
        """Keep a worker for the next statement; one that has ended is replaced, so that the next need not wait."""
        with self._lock:
            self._busy.discard(worker)
        if not worker.usable and not self._closed:
            worker.end()
            with suppress(OSError):  # If none can be started now, who needs one tries again.
                worker = _Worker(self.limits)
        with self._lock:
            if worker.usable and not self._closed:
                self._idle.append(worker)
                return
        worker.end()

    def _check_open(self) -> None:
        if self._closed:
            raise QueryError("the server is closing: statements are no longer worked out")

    def _refusal(self, code: int) -> QueryError:
        """Why a worker has ended in the middle of a statement."""
        if self._closed:
            return QueryError("the server is closing: statements are no longer worked out")
        return self.limits.too_slow() if code == -signal.SIGXCPU else self.limits.too_large()
