"""The plan of the house: how many rooms it has, and how large they are."""

from __future__ import annotations

from collections import Counter
from statistics import median

from support.code_lines import code_lines, function_lengths
from support.imports import SOURCE, modules

FILES = {path.relative_to(SOURCE).as_posix(): path for path in modules().values()}
LINES = {name: code_lines(path.read_text()) for name, path in FILES.items()}
FUNCTIONS = [length for path in FILES.values() for length in function_lengths(path.read_text())]


def test_a_person_can_know_all_files() -> None:
    """150 were enough until there was a ledger by row, with groups and series over it, some ten files more; learning by
    rings, dates, sums and files as they come, twenty; SQL in two stages, two dozen, and its engines, eight; the server,
    its page, its client and agents, forty; operations of the kernel and what differs between engines, each a file, two
    dozen; persons, erasure, discovery, drivers and published tables, fifty."""
    assert 100 < len(FILES) <= 384


def test_a_folder_can_be_seen_at_once() -> None:
    folders = Counter(path.parent for path in FILES.values())
    assert {folder.name: files for folder, files in folders.items() if files > 17} == {}


def test_no_file_is_long() -> None:
    assert {name: lines for name, lines in LINES.items() if lines > 400} == {}


def test_files_are_worth_opening() -> None:
    assert median(lines for name, lines in LINES.items() if not name.endswith("__init__.py")) >= 100


def test_functions_can_be_seen_whole() -> None:
    assert median(FUNCTIONS) <= 4
    assert sum(length <= 17 for length in FUNCTIONS) >= 0.95 * len(FUNCTIONS)
