"""Files from outside are refused before anything recursive or unbounded reads them."""

from __future__ import annotations

import gzip
import io
import json
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import treering as tr
from treering.rowfile import RowFile
from treering.trusted.rows import files
from treering.trusted.rows.files import MOST_COLUMNS, MOST_DEPTH, MOST_LINE, JsonLines, Unreadable, depth_of

MEMORY = 2 * 2**30
"""The most memory that a process may have while it reads a hostile file: an interpreter with Arrow has over one."""

READING = """
import sys
from pathlib import Path
import treering as tr
from treering.rowfile import RowFile
from treering.trusted.rows.intake import Intake, typed_blocks
schema = tr.Schema({"code": tr.categories("a", "b"), "size": tr.integers(0, 9)})
try:
    for _ in typed_blocks(RowFile(Path(sys.argv[1])), schema, None, drop="drop" in sys.argv, intake=Intake()):
        pass
except tr.DataError as error:
    print(error)
"""


def refusal(path: Path, *options: str) -> str:
    """What a process of its own says of a file: it must end well, within its memory and in time."""
    limits = (MEMORY, MEMORY)
    ended = subprocess.run(
        [sys.executable, "-c", READING, str(path), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limits),
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    return ended.stdout


def varint(number: int) -> bytes:
    """An unsigned number as Thrift's compact protocol writes it."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def deep_parquet(depth: int) -> bytes:
    """A Parquet file of no rows, whose one column lies in groups within each other."""
    group, leaf = b"\x35\x02\x18\x01a\x15\x02\x00", b"\x15\x02\x25\x02\x18\x01x\x00"
    schema = b"\x48\x06schema\x15\x02\x00" + group * depth + leaf
    footer = b"\x15\x02\x19\xfc" + varint(depth + 2) + schema + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def arrow() -> bytes:
    """An Arrow file of two rows."""
    sink = io.BytesIO()
    table = pa.table({"code": ["a", "b"], "size": [1, 2]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def lying_arrow() -> bytes:
    """An Arrow file whose second text ends far beyond its bytes."""
    honest = struct.pack("<3i", 0, 1, 2)
    assert arrow().count(honest) == 1
    return arrow().replace(honest, struct.pack("<3i", 0, 1, 2**30))


def wide(write: Callable[[pa.Table, Any], object]) -> bytes:
    """A file of more columns than there may be."""
    sink = io.BytesIO()
    write(pa.table({f"c{place}": [1] for place in range(MOST_COLUMNS + 1)}), sink)
    return sink.getvalue()


ROW = b'{"code": "a", "size": 1}\n'
NESTED = b'{"code": "a", "size": 1, "more": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n"
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "deep": (".jsonl", lambda: ROW * 5 + NESTED, "line 6 is nested more than 64 deep"),
    "deep objects": (".jsonl", lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested more than 64 deep"),
    "deep over lines": (".jsonl", lambda: b'{"a": [\n' + b"[\n" * 100_000, "line 1 is no JSON object"),
    "open": (".jsonl", lambda: b"[" * 1_000_000, "line 1 is no JSON object"),
    "deep, zipped": (".jsonl.gz", lambda: gzip.compress(ROW + NESTED), "line 2 is nested more than 64 deep"),
    "long, zipped": (".jsonl.gz", lambda: bomb(b'{"code": "'), "line 1 has more than 1,048,576 bytes"),
    "long blank, zipped": (".ndjson.gz", lambda: bomb(b"", b" "), "line 1 has more than 1,048,576 bytes"),
    "long header, zipped": (".csv.gz", lambda: bomb(b"code,"), "line 1 has more than 1,048,576 bytes"),
    "long field, zipped": (".csv.gz", lambda: bomb(b'code,size\na,1\n"'), "no separated text"),
    "wide header": (".csv", lambda: b"x," * 500_000 + b"code,size\n1\n", "500,002 columns, and may have 16,384"),
    "wide object": (
        ".jsonl",
        lambda: b"{" + b",".join(b'"%d":1' % place for place in range(80_000)) + b"}",
        "80,000 columns, and may have 16,384",
    ),
    "wide parquet": (".parquet", lambda: wide(pq.write_table), "16,385 columns, and may have 16,384"),
    "wide feather": (".feather", lambda: wide(feather.write_feather), "16,385 columns, and may have 16,384"),
    "deep parquet": (".parquet", lambda: deep_parquet(200_000), "no file of parquet, or it is damaged"),
    "long footer": (".parquet", lambda: b"PAR1" + struct.pack("<I", 2**31 - 1) + b"PAR1", "or it is damaged"),
    "lying arrow": (".arrow", lying_arrow, "no file of arrow, or it is damaged"),
    "cut arrow": (".arrow", lambda: arrow()[:-30], "no file of arrow, or it is damaged"),
}


def packed(column: pa.Array, **options: Any) -> bytes:
    """A Parquet file whose rows are much longer than it is."""
    sink = io.BytesIO()
    table = pa.table({"code": column, "size": pa.array([1] * len(column))})
    pq.write_table(table, sink, compression="zstd", **options)
    assert len(sink.getvalue()) < 2**20
    return sink.getvalue()


LONG = "x" * 2**20
ONE = pa.DictionaryArray.from_arrays(pa.array([0] * 5_000, pa.int32()), [LONG])
PACKED: dict[str, tuple[Callable[[], bytes], str]] = {
    "a text for all rows": (lambda: packed(ONE), ""),
    "a text for all rows, untyped": (lambda: packed(ONE, store_schema=False), ""),
    "a longer text": (lambda: packed(pa.array(["a", LONG + "x"])), "column 'code' has a text of more than 1,048,576"),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_file_whose_rows_are_longer_than_it_is(tmp_path: Path, name: str) -> None:
    """They are read some at a time: gigabytes of them, in files of a megabyte at most."""
    content, problem = PACKED[name]
    path = tmp_path / "rows.parquet"
    path.write_bytes(content())
    told = refusal(path, "drop")
    assert problem in told if problem else told == ""


def test_parquet_is_read_by_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what its footer says of its rows, and by its longest text."""
    monkeypatch.setattr(files, "MOST_UNPACKED", 2**16)
    path, schema = tmp_path / "rows.parquet", tr.Schema({"code": tr.categories("a"), "size": tr.integers(0, 9)})
    for options in ({"use_dictionary": False}, {}):
        path.write_bytes(packed(pa.array(["x" * 1000] * 1000), **options))
        read = list(files.blocks(RowFile(path), schema))
        assert sum(each.num_rows for each in read) == 1000
        assert max(each.num_rows for each in read) <= 65


def bomb(start: bytes, filling: bytes = b"x") -> bytes:
    """Three gigabytes of one line, in three megabytes: as parts of a file, each zipped by itself."""
    return gzip.compress(start) + gzip.compress(filling * 2**24) * (3 * 64)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_within_limits(tmp_path: Path, name: str) -> None:
    ending, content, problem = HOSTILE[name]
    path = tmp_path / f"rows{ending}"
    path.write_bytes(content())
    assert problem in refusal(path)


@pytest.mark.parametrize("size", [1, 7, 1000, 2**20])
def test_lines_come_out_as_they_are(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", size)
    lines = b'{"a": 1}\n\n {"a": "}"} \r\n{"b": [[[]]]}\n{"c": "[[[[[["}'
    assert io.BufferedReader(JsonLines(io.BytesIO(lines))).read() == lines + b"\n"


@pytest.mark.parametrize(("piece", "most"), [(10, 30), (100, 30), (7, 30)])
def test_a_line_may_have_just_so_many_bytes(piece: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE", piece)
    monkeypatch.setattr(files, "MOST_LINE", most)
    line = b'{"a": "%s"}' % (b"x" * (most - 9))
    assert len(line) == most
    for end in (b"\n", b""):
        assert JsonLines(io.BytesIO(b"{}\n" + line + end)).readall() == b"{}\n" + line + b"\n"
        with pytest.raises(Unreadable, match="line 2 has more than 30 bytes"):
            JsonLines(io.BytesIO(b"{}\n " + line + end)).readall()


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ax', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\', max_size=3), inner, max_size=3),
)


def deepest(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(deepest, inner), default=0)


@given(JSON)
def test_the_depth_is_that_of_the_value(value: Any) -> None:
    assert depth_of(json.dumps(value).encode()) == deepest(value)


@pytest.mark.parametrize("depth", [1, MOST_DEPTH - 1, MOST_DEPTH, 1000])
def test_a_line_may_be_nested_just_so_deep(depth: int) -> None:
    """The object itself is one of them; brackets in a text are none."""
    line = b'{"text": "%s", "a": %s}\n' % (b"[{" * 500, b"[" * depth + b"]" * depth)
    if depth < MOST_DEPTH:
        assert JsonLines(io.BytesIO(line)).readall() == line
    else:
        with pytest.raises(Unreadable, match="line 1 is nested more than 64 deep"):
            JsonLines(io.BytesIO(line)).readall()


def test_a_long_line_within_the_limit_is_read() -> None:
    line = b'{"a": "%s"}\n' % (b"x" * (MOST_LINE - 10))
    assert JsonLines(io.BytesIO(line * 5)).readall() == line * 5


LARGE = """
import sys
from pathlib import Path
import pyarrow as pa
import treering as tr
from treering.rowfile import RowFile
from treering.trusted.rows.intake import Intake, typed_blocks
schema = tr.Schema({"x": tr.bins([0, 0.5, 1])})
blocks = typed_blocks(RowFile(Path(sys.argv[1])), schema, None, drop=False, intake=Intake())
rows = sum(block.num_rows for block in blocks)
print(rows, pa.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize("group", [2**17, 2**22])
def test_memory_does_not_grow_with_a_parquet_file(group: int, tmp_path: Path) -> None:
    """Nor with its row groups: of 32 MiB that nothing compresses, half is in memory at the most."""
    rows = 2**22
    file = tmp_path / "large.parquet"
    values = np.random.default_rng(1).random(rows)
    pq.write_table(pa.table({"x": values}), file, row_group_size=group, use_dictionary=False)
    assert file.stat().st_size > 8 * rows
    ended = subprocess.run([sys.executable, "-c", LARGE, str(file)], capture_output=True, text=True, check=True)
    read, most = map(int, ended.stdout.split())
    assert read == rows
    assert most < file.stat().st_size / 2
