"""Files of rows that were refused: which line it was, and what is wrong with a file. The trusted base looks."""

from __future__ import annotations

from pathlib import Path

from treering.errors import DataError
from treering.trusted.rows import troubles


def unreadable(path: Path, kind: str) -> DataError:
    """The error for a file that cannot be read as its suffix, ``kind``, says."""
    why = troubles.trouble(path, kind)
    return DataError(f"{path} cannot be read as {kind.lstrip('.')}{why and ': '}{why}")


def located(error: DataError, path: Path, kind: str) -> DataError:
    """An error about rows of a file, with the file's name, and the line in the place of the row."""
    text = str(error)
    if str(path) in text:
        return error
    if error.row is not None:
        line = troubles.line_of(path, kind, error.row)
        place = f"row {error.row + 1:,}, counted from 1" if line is None else f"line {line:,}"
        text = text.replace(f"row {error.row}", place, 1)
    elif error.column is not None and (line := troubles.text_line(path, kind, error.column)) is not None:
        text = f"line {line:,}, column {error.column!r}: the value is no number; nothing of the file was taken in"
    elif why := troubles.trouble(path, kind):
        text += f"; {why}"
    text = text.replace("nothing of the batch was taken", "nothing of the file was taken in")
    return DataError(f"{path}: {text}", row=error.row, column=error.column)
