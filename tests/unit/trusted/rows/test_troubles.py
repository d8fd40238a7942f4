"""What is wrong with a file, in numbers of lines and fields."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from treering.trusted.rows.troubles import line_of, text_line, trouble

SECRET = "s3cr3t"

TROUBLES: dict[str, tuple[str, bytes, str]] = {
    "empty": (".csv", b"", "it is empty"),
    "ragged": (".csv", b"a,b\n1,2\ns3cr3t\n", "line 3 has 1 field, and the header has 2"),
    "latin": (".csv", b"a,b\ns3cr3t,\xe9\n", "line 2 is not in UTF-8 (in Latin-1, perhaps): save it as UTF-8"),
    "utf-16": (".csv", "a,b\n".encode("utf-16"), "it is in UTF-16: save it as UTF-8"),
    "semicolons": (".csv", b"a;b\n1;2\n", "its fields seem to be separated by semicolons, and not by commas"),
    "tabs": (".csv", b"a\tb\n", "its fields seem to be separated by tabs, and not by commas"),
    "quote": (".csv", b'a,b\n"s3cr3t,1\n', "up to line 2 a quote is not closed, or stands within a field"),
    "spreadsheet": (".csv", b"PK\x03\x04s3cr3t", "it looks like a zip file, or a spreadsheet"),
    "compressed": (".csv", gzip.compress(b"a,b\n"), "it looks like compressed by gzip"),
    "not compressed": (".csv.gz", b"a,b\n", "it is not, or not wholly, compressed by gzip"),
    "cut": (".csv.gz", gzip.compress(b"a,b\n" * 1000)[:-9], "it is not, or not wholly, compressed by gzip"),
    "parquet": (".parquet", b"a,b\n", "it does not begin as a file of that kind does"),
    "arrow": (".arrow", b"PAR1s3cr3t", "it does not begin as a file of that kind does; it looks like a Parquet file"),
    "json": (".jsonl", b'{"a": 1}\n\n{"a": s3cr3t\n', "line 3 is no JSON object"),
    "list": (".ndjson", b"[1]\n", "line 1 is no JSON object"),
    "types": (".jsonl", b'{"a": 1}\n{"a": "s3cr3t"}\n', "a column has values of several types"),
    "good": (".csv", b"a,b\n1,2\n", ""),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_what_is_wrong_is_said_without_a_value(tmp_path: Path, name: str) -> None:
    kind, content, said = TROUBLES[name]
    path = tmp_path / f"rows{kind}"
    path.write_bytes(content)
    assert trouble(path, kind) == said
    assert SECRET not in said


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    assert trouble(tmp_path / "nothing.csv", ".csv") == "it cannot be opened"
    assert line_of(tmp_path / "nothing.csv", ".csv", 0) is None
    assert text_line(tmp_path / "nothing.csv", ".csv", "a") is None


def test_the_line_of_a_row(tmp_path: Path) -> None:
    text = '\ufeffa,b\n1,2\n\n"two\nlines",3\n4,5\n'
    for kind, content in ((".csv", text.encode()), (".csv.gz", gzip.compress(text.encode()))):
        path = tmp_path / f"rows{kind}"
        path.write_bytes(content)
        assert [line_of(path, kind, row) for row in range(4)] == [2, 5, 6, None]
        assert text_line(path, kind, "a") == 5
        assert text_line(path, kind, "b") is None
        assert text_line(path, kind, "c") is None
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert [line_of(lines, ".jsonl", row) for row in range(3)] == [1, 3, None]
    assert line_of(lines, ".parquet", 0) is None
    assert text_line(lines, ".jsonl", "a") is None


def test_missing_values_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\nNA\n1e3\nnan\n-inf\nnull\nn/a\nx\n")
    assert text_line(path, ".csv", "a") == 8
