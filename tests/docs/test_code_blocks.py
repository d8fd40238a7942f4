"""Every Python block of README and docs/ runs, and every schema in TOML loads.

The blocks of one page share a namespace, in order, in an empty working folder. A block of ``>>>`` lines is a doctest;
any other is run as it is.
"""

from __future__ import annotations

import doctest
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.markdown import Block, blocks
from support.repository import ROOT, pages
from treering import Schema

PAGES = [path for path in pages() if any(block.info.startswith("python") for block in blocks(path.read_text()))]


class DoctestError(Exception):
    """A doctest block gave something else."""


def run(block: Block, namespace: dict[str, Any], page: str) -> None:
    """Run one block; an error's traceback points at the page's own line."""
    if not block.code.lstrip().startswith(">>>"):
        exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.code, namespace, page, page, block.line - 1)
    written: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=written.append, clear_globs=False)
    namespace.update(test.globs)
    if runner.failures:
        raise DoctestError("".join(written))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page.read_text()):
        if block.info == "python":
            run(block, namespace, str(page))


def test_the_pages_that_should_have_code_have_some() -> None:
    names = (
        "README index tutorial steward analyst researcher schema-and-queries sparse rings pmwg audit boxes schedulers "
        "continual plan learning durability scale privacy erasure"
    )
    assert {f"{name}.md" for name in names.split()} <= {page.name for page in PAGES}


def test_no_block_is_excused() -> None:
    """A block that is not to run would be marked after the language; there is none."""
    infos = {block.info for page in pages() for block in blocks(page.read_text())}
    assert infos <= {"python", "toml", "sh", "text"}


def test_the_schemas_load() -> None:
    found = [block for page in pages() for block in blocks(page.read_text()) if block.info == "toml"]
    assert found
    for block in found:
        assert Schema.from_dict(tomllib.loads(block.code)).cells > 0


def test_a_block_that_fails_is_seen_on_its_line() -> None:
    (block,) = blocks("text\n\n```python\nx = 1\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(block, {}, "page.md")
    assert caught.traceback[-1].lineno == 4  # counted from 0: the page's fifth line


def test_a_doctest_that_gives_something_else_is_seen() -> None:
    (block,) = blocks("```python\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(DoctestError, match="Expected"):
        run(block, {}, "page.md")


def test_blocks_share_a_namespace() -> None:
    namespace: dict[str, Any] = {}
    for block in blocks(
        "```python\nx = 1\n```\n\n```python\n>>> x += 1\n>>> x\n2\n```\n\n```python\nassert x == 2\n```\n"
    ):
        run(block, namespace, "page.md")
    assert namespace["x"] == 2


def test_a_block_left_open_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2 is never closed"):
        blocks("a\n```python\nx = 1\n")
