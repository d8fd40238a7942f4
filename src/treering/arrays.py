"""Names of array types by what they hold: the one place that defines those that signatures use.

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
