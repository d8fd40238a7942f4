"""PRIVATE: the base class of what holds private values; and commitments, which bind values without showing them."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NoReturn, SupportsIndex


class Sealed:
    """An object that nothing prints, pickles or copies by accident.

    Its repr is its type's name. Pickling and copying (`copy.copy` and `copy.deepcopy` go the same way) raise
    `TypeError`: a second copy of a secret, in a file, a queue or another process, is a second place that it can leak
    from, and noise that is used twice protects nothing. Subclasses declare ``__slots__``, and are dataclasses only with
    ``repr=False``.

    >>> Sealed()
    <Sealed>
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._refuse()

    def __getstate__(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds private values: it can be neither pickled nor copied; "
            "keep it in the process that made it and pass on what the kernel releases"
        )


# -- commitments -------------------------------------------------------------------------------------------------------

_SALT_BYTES: Final = 32


def salt() -> bytes:
    """Fresh random bytes, secret: the salt of a commitment, or a key."""
    return secrets.token_bytes(_SALT_BYTES)


def commitment(salt: bytes, *contents: bytes) -> str:
    """A hash that binds contents and, without the salt, tells nothing about them."""
    state = hashlib.sha256(salt)
    for content in contents:
        state.update(len(content).to_bytes(8, "big"))
        state.update(content)
    return state.hexdigest()
