"""Names of array types by what they hold: the one place that defines those that signatures use. And equal rows.

Written out as `numpy.ndarray`, not as `numpy.typing.NDArray`: from Python 3.12 on NumPy declares that one as a lazy
alias, which the vault's codec cannot resolve when it reads the declared types of an event's fields.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Any]]
Bytes: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.uint8]]
Flags: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
Floats: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Ints: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Words: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]


def rows_alike(table: Array) -> Ints:
    """A number for each row of a table: the same for rows that are equal.

    (`numpy.unique` along an axis takes minutes where rows are long.)

    >>> rows_alike(np.array([[1, 2], [0, 2], [1, 2]])).tolist()
    [1, 0, 1]
    """
    rows = np.ascontiguousarray(table.reshape(len(table), -1))
    if not rows.size:
        return np.zeros(len(rows), dtype=np.int64)
    plain = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    return np.unique(plain.reshape(-1), return_inverse=True)[1].reshape(-1).astype(np.int64)
