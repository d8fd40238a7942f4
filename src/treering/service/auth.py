"""Who calls: tokens of two roles, sessions of the page, and what each request has to show.

A token is a random text of 256 bits that its holder alone has: the server keeps a hash. A session is the same, made
when a token logs in at the page; it lives in memory for some hours, and ends with its token.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from treering.errors import ParameterError
from treering.params import probability
from treering.service.problems import Problem

Role: TypeAlias = Literal["analyst", "steward"]

PREFIX: Final = "treering_"
"""What a token begins with, so that people and scanners know one when they see it."""

COOKIE: Final = "treering_session"
SESSION: Final = 12 * 3600.0
"""Seconds that a session lasts."""

MOST_SESSIONS: Final = 10_000
LONGEST: Final = 10 * 366 * 86400.0
"""The longest life of a token, in seconds: some ten years."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What an analyst may use within a week; None for no limit."""

    answers: int | None = None
    """Answers that cost something."""
    budget: float | None = None
    """A part of the whole budget, in (0, 1]."""

    def __post_init__(self) -> None:
        if self.answers is not None and (not isinstance(self.answers, int) or not 0 <= self.answers <= 10**12):
            raise ParameterError("answers", "must be a whole number, of at least 0")
        if self.budget is not None and self.budget != 1:
            probability(self.budget, "budget")

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.answers is not None or self.budget is not None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"answers": self.answers, "budget": self.budget}


PART: Final = 0.05
"""The part of the budget a week in a quota of answers that states none: one answer may cost most of the budget."""


def quota_of(answers: int | None, budget: float | None) -> Quota:
    """The quota that a steward gives: with ``answers`` and no ``budget``, a `PART` of that. (A budget of 1 is all.)

    >>> quota_of(100, None), quota_of(100, 1.0), quota_of(None, None).limited
    (Quota(answers=100, budget=0.05), Quota(answers=100, budget=1.0), False)
    """
    return Quota(answers, PART if answers and budget is None else budget)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without the text that proves it: what `GET tokens` shows, and the digest."""

    id: str
    name: str
    role: Role
    digest: str
    """The SHA-256 of the token's text. That has 256 random bits, so no slower hash is needed."""
    created: float
    expires: float | None = None
    revoked: float | None = None
    quota: Quota = Quota()

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for the file."""
        plain = {
            name: getattr(self, name) for name in ("id", "name", "role", "digest", "created", "expires", "revoked")
        }
        return {**plain, "quota": self.quota.to_dict()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Token:
        """The token that `to_dict` wrote."""
        return cls(**{**plain, "quota": Quota(**plain["quota"])})

    def problem(self, now: float) -> Problem | None:
        """Why this token is not accepted; None if it is."""
        if self.revoked is not None:
            return unauthenticated("token_revoked", "this token was revoked: ask a steward for a new one")
        if self.expires is not None and now >= self.expires:
            return unauthenticated("token_expired", "this token has expired: ask a steward for a new one")
        return None


def new_token(name: str, role: str, lifetime: float | None, quota: Quota) -> tuple[Token, str]:
    """A new token and its text, which nobody can find again. ``lifetime`` is in seconds; None for no end."""
    if not isinstance(name, str) or not 1 <= len(name) <= 100 or not name.isprintable():
        raise ParameterError("name", "must be a printable text of 1 to 100 characters")
    if role not in ("analyst", "steward"):
        raise ParameterError("role", 'must be "analyst" or "steward"')
    if role == "steward" and quota.limited:
        raise ParameterError("quota", "is for analysts: a steward could give itself a larger one")
    if lifetime is not None and not 1 <= lifetime <= LONGEST:
        raise ParameterError("lifetime", "must be at least a second, and at most ten years")
    text, now = PREFIX + secrets.token_urlsafe(32), time.time()
    expires = None if lifetime is None else now + lifetime
    known: Role = "steward" if role == "steward" else "analyst"
    return Token(secrets.token_hex(6), name, known, digest(text), now, expires, None, quota), text


def digest(text: str) -> str:
    """The hash that is kept of a token, or of a session."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two digests are equal, in a time that does not tell where they differ."""
    return secrets.compare_digest(one, other)


def request_id() -> str:
    """A name for a request, in the log and in its response."""
    return secrets.token_hex(8)


class Sessions:
    """The sessions of the page: in memory only, so a restart ends them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, float]] = {}

    def begin(self, token: Token) -> str:
        """A new session of this token: the value of its cookie."""
        now = time.time()
        self._known = {key: each for key, each in self._known.items() if each[1] > now}
        while len(self._known) >= MOST_SESSIONS:
            del self._known[next(iter(self._known))]
        text = secrets.token_urlsafe(32)
        self._known[digest(text)] = token.id, now + SESSION
        return text

    def token_of(self, text: str) -> str | None:
        """The id of a session's token; None if there is no such session any more."""
        found = self._known.get(digest(text))
        return found[0] if found is not None and found[1] > time.time() else None

    def end(self, text: str) -> None:
        """End a session."""
        self._known.pop(digest(text), None)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    token: Token
    by_cookie: bool = False
    """Whether a cookie said so, which a browser sends by itself, and no header."""

    @property
    def steward(self) -> bool:
        """Whether this is a steward."""
        return self.token.role == "steward"


# -- what a request has to show ----------------------------------------------------------------------------------------


def unauthenticated(code: str, detail: str) -> Problem:
    """The refusal of a request without a token that is accepted."""
    return Problem(401, code, detail, headers={"WWW-Authenticate": 'Bearer realm="treering"'})


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token in the header ``Authorization``; None if there is no such header."""
    given = headers.get("authorization")
    if given is None:
        return None
    scheme, _, text = given.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise unauthenticated("token_missing", "the header must be `Authorization: Bearer TOKEN`")
    return text.strip()


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a request that another site's page made the browser send: one that changes something, by cookie, must say
    that it comes from our own page."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return
    fetch, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if fetch == "same-origin" or (fetch is None and origin is not None and _host(origin) == headers.get("host")):
        return
    raise Problem(403, "cross_origin", "a request by cookie must come from the server's own page")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
