"""The register: a file of its own with all tokens, and what each has used of its quota.

The file ``service/register.jsonl`` in the vault's folder has a line for each thing that happened: a token was made, a
token was revoked, a token used so much. A line is on disk before what it allows happens. The state is the sum of all
lines; opening the register, and a file that has become long, write the sum as a new, short file, which takes the place
of the old one whole.

The vault does not know this file: `verify` and `backup` leave it out, so a copy of a vault has no tokens. The process
that has the register open keeps it locked.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from treering.errors import DamagedVault, VaultBusy, VaultError
from treering.service.auth import Quota, Token, digest, new_token, same, unauthenticated
from treering.words import reason

WEEK: Final = 7 * 86400.0
HOUR: Final = 3600.0
LONG: Final = 2**22
"""Bytes from which on the file is made short again while the server runs."""
KEPT: Final = 90 * 86400.0
"""Seconds for which a token that is no longer accepted stays listed."""


class Used(NamedTuple):
    """What a token has used within a week."""

    answers: int
    budget: float
    """In the promise's unit."""
    until: float | None
    """When the oldest of it no longer counts, in seconds since 1970; None if there is nothing."""


class Register:
    """All tokens and their use, durable; for any number of threads of one process."""

    def __init__(self, vault: Path) -> None:
        """Open, or make, the register of the vault in this folder, and lock it."""
        self.folder = vault / "service"
        self._path = self.folder / "register.jsonl"
        self._lock = threading.RLock()
        self._syncing = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._ids: dict[str, str] = {}
        self._used: dict[str, dict[int, list[float]]] = defaultdict(dict)
        self._length = self._synced = 0
        self._long = LONG
        self._file = self._locked = -1
        try:
            self._open()
        except OSError as error:
            raise VaultError(f"cannot open the register of tokens: {reason(error)}") from None

    def _open(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._lock_file()
        try:
            self._load()
            self._file = self._condense()
        except BaseException:
            os.close(self._locked)
            raise

    def close(self) -> None:
        """Let the next process in."""
        with self._lock:
            for descriptor in (self._file, self._locked):
                if descriptor >= 0:
                    os.close(descriptor)
            self._file = self._locked = -1

    # -- tokens -------------------------------------------------------------------------------------------------------

    def issue(
        self, name: str, role: str, lifetime: float | None = None, quota: Quota | None = None
    ) -> tuple[Token, str]:
        """A new token and its text, which is shown this once. See `new_token`."""
        token, text = new_token(name, role, lifetime, quota or Quota())
        self._write({"token": token.to_dict()})
        return token, text

    def revoke(self, who: str) -> bool:
        """Accept a token no more; False if there is no such token, or it was revoked before."""
        with self._lock:
            if who not in self._tokens or self._tokens[who].revoked is not None:
                return False
        self._write({"revoked": who, "time": time.time()})
        return True

    def accept(self, text: str) -> Token:
        """The token with this text; a `Problem` if there is none, or if it is accepted no more."""
        hashed = digest(text)
        token = self._tokens.get(self._ids.get(hashed, ""))
        if token is None or not same(token.digest, hashed):
            raise unauthenticated("token_unknown", "this token is not known here")
        return self.standing(token.id)

    def standing(self, who: str) -> Token:
        """The token with this id, if it is still accepted; otherwise a `Problem`."""
        token = self._tokens.get(who)
        problem = unauthenticated("token_unknown", "no such token") if token is None else token.problem(time.time())
        if token is None or problem is not None:
            raise problem or AssertionError
        return token

    @property
    def tokens(self) -> list[Token]:
        """All tokens, the oldest first."""
        with self._lock:
            return list(self._tokens.values())

    # -- use ----------------------------------------------------------------------------------------------------------

    def used(self, who: str) -> Used:
        """What a token has used within the last week."""
        with self._lock:
            hours = self._recent(who)
            answers, budget = (sum(each[place] for each in hours.values()) for place in (0, 1))
            until = min(hours) * HOUR + WEEK + HOUR if hours else None
            return Used(round(answers), max(0.0, budget), until)

    def reserve(self, who: str, quota: Quota, answers: int, price: float, total: float) -> Reservation | None:
        """Set ``price`` and a number of answers aside, durably; None if the quota does not cover them."""
        with self._lock:
            used = self.used(who)
            most = None if quota.budget is None else quota.budget * total
            if quota.answers is not None and used.answers + answers > quota.answers:
                return None
            if most is not None and used.budget + price > most * (1 + 1e-12):
                return None
            hour = int(time.time() // HOUR)
            self._append({"used": who, "hour": hour, "answers": answers, "budget": price})
            length = self._length
        self._sync(length)
        return Reservation(self, who, hour, answers, price)

    def settle(self, who: str, hour: int, answers: int, budget: float) -> None:
        """Add to what was used, or give back what was not. (If a crash loses this line, the reservation stands.)"""
        if answers or budget:
            with self._lock, suppress(VaultError):  # The answer leaves all the same.
                self._append({"used": who, "hour": hour, "answers": answers, "budget": budget})

    def _recent(self, who: str) -> dict[int, list[float]]:
        since = int((time.time() - WEEK) // HOUR)
        hours = {hour: each for hour, each in self._used.get(who, {}).items() if hour >= since and any(each)}
        if who in self._used:
            self._used[who] = hours
        return hours

    # -- the file -----------------------------------------------------------------------------------------------------

    def _write(self, plain: Mapping[str, Any]) -> None:
        with self._lock:
            self._append(plain)
            length = self._length
        self._sync(length)

    def _append(self, plain: Mapping[str, Any]) -> None:
        """Write a line, and take it up; it is durable once `_sync` has returned."""
        line = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        try:
            written = os.pwrite(self._file, line, self._length)
            if written < len(line):
                written += os.pwrite(self._file, line[written:], self._length + written)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._length)
            raise VaultError(f"cannot write to the register of tokens: {reason(error)}; nothing was charged") from None
        self._length += len(line)
        self._take(plain)
        if self._length > self._long:
            self._shorten()

    def _shorten(self) -> None:
        """Put a short file in the place of a long one; if that fails, go on with the long one."""
        with self._syncing:
            before = self._file
            try:
                self._file = self._condense()
                os.close(before)
            except OSError:
                if not os.path.samestat(os.fstat(before), self._path.stat()):  # Which of the two will stay?
                    os.close(before)
                    self._file = -1  # Nothing more is written, and so nothing more is allowed.
        self._long = max(LONG, 2 * self._length)

    def _sync(self, length: int) -> None:
        """Return once the first ``length`` bytes are on disk: one sync for all threads that wait."""
        with self._syncing:
            if self._synced < length:
                reached = self._length
                try:
                    if self._file < 0:
                        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                    os.fdatasync(self._file)
                except OSError as error:
                    raise VaultError(f"cannot write to the register of tokens: {reason(error)}") from None
                self._synced = reached

    def _take(self, plain: Mapping[str, Any]) -> None:
        """Take up one line."""
        if "token" in plain:
            token = Token.from_dict(plain["token"])
            self._tokens[token.id] = token
            self._ids[token.digest] = token.id
        elif "revoked" in plain:
            self._tokens[plain["revoked"]] = replace(self._tokens[plain["revoked"]], revoked=plain["time"])
        else:
            each = self._used[plain["used"]].setdefault(plain["hour"], [0, 0.0])
            each[0], each[1] = each[0] + plain["answers"], each[1] + plain["budget"]

    def _lock_file(self) -> None:
        self._locked = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._locked)
            raise VaultBusy("a server has this vault's tokens open: make and revoke them there, or stop it") from None

    def _load(self) -> None:
        """Take up all lines. (The last may be torn: what it would have allowed has not happened.)"""
        if not self._path.exists():
            return
        lines = self._path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise DamagedVault(
                    f"line {number} of {self._path} is not what was written: restore it, or delete the file and make "
                    "new tokens"
                ) from None

    def _condense(self) -> int:
        """Write the state as a new file in the place of the old one, and open it."""
        temporary = self._path.with_name(self._path.name + ".new")
        content = b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in self._lines())
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, content, 0)
            os.fsync(descriptor)
            temporary.rename(self._path)
            sync_folder(self.folder)
        except BaseException:
            os.close(descriptor)
            raise
        self._length = self._synced = len(content)
        return descriptor

    def _lines(self) -> Iterator[dict[str, Any]]:
        """The lines of a short file with the same state."""
        now = time.time()
        for token in list(self._tokens.values()):
            ended = token.revoked if token.revoked is not None else token.expires
            if ended is not None and ended < now - KEPT:
                del self._tokens[token.id], self._ids[token.digest]
                continue
            yield {"token": token.to_dict()}
            for hour, (answers, budget) in self._recent(token.id).items():
                yield {"used": token.id, "hour": hour, "answers": answers, "budget": budget}


class Reservation:
    """Something set aside for one question: what of it was not used is given back."""

    def __init__(self, register: Register, who: str, hour: int, answers: int, price: float) -> None:
        self._register, self._who, self._hour = register, who, hour
        self._answers, self._price = answers, price

    def settle(self, cost: float) -> None:
        """The question has cost this much; if that is nothing, its answers do not count either."""
        answers = 0 if cost > 0 else -self._answers
        self._register.settle(self._who, self._hour, answers, cost - self._price)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
