"""What the pages say about the repository is so: links, make targets, the two commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import treering as tr
from support.markdown import anchors, blocks, links, prose
from support.repository import ROOT, make_targets, pages
from treering.cli.main import app


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for link in links(text):
        if link.startswith("https:"):  # tests/architecture/test_no_addresses.py says which may be named.
            continue
        name, _, anchor = link.partition("#")
        target = page if not name else (page.parent / name).resolve()
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


def named_targets(text: str) -> set[str]:
    """What follows ``make`` in code: in spans like `make test` and on the lines of shell blocks."""
    spans = re.findall(r"`make ([a-z][a-z-]*)", text)
    shell = [line for block in blocks(text) if block.info == "sh" for line in block.code.splitlines()]
    return {*spans, *(match[1] for line in shell if (match := re.match(r"make ([a-z][a-z-]*)", line)))}


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documented_targets_exist(page: Path) -> None:
    assert named_targets(page.read_text()) <= make_targets()


def unknown_names(text: str) -> list[str]:
    """The names in backticks that no code block of the page has, and that are no command, file or folder."""
    code = " ".join(block.code for block in blocks(text))
    names = [name for name in re.findall(r"`([^`\n]+)`", prose(text)) if not name.startswith("make ")]
    return [name for name in names if not re.search(rf"\b{re.escape(name)}\b", code) and not _exists(name)]


def _exists(name: str) -> bool:
    return name.startswith(".venv/bin/") or (ROOT / name).exists() or name.removeprefix("tr.") in dir(tr)


def test_the_tutorial_names_only_what_exists() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    assert unknown_names(page) == []
    assert unknown_names(page + "\nstart where `examples` is found") == ["examples"]


COMMANDS = {each.name or (each.callback.__name__ if each.callback else "") for each in app.registered_commands} | {
    str(each.name) for each in app.registered_groups
}
OBJECTS = {"tr": tr, "vault": tr.Vault}
"""What the pages call by these names."""


def _is_module(name: str) -> bool:
    return importlib.util.find_spec("treering." + name.removeprefix("tr.")) is not None


def missing_operations(text: str) -> list[str]:
    """What pages say there is at the front, on a vault, or at the command line, and is not."""
    code = [*re.findall(r"`([^`\n]+)`", prose(text)), *(block.code for block in blocks(text) if block.info == "python")]
    named = [match for each in code for match in re.finditer(r"\b(tr|vault)\.([a-z_A-Z]\w*)", each)]
    commands = re.findall(r"`treering ([a-z][a-z-]*)[ `]", prose(text))
    absent = [match[0] for match in named if not (hasattr(OBJECTS[match[1]], match[2]) or _is_module(match[0]))]
    return absent + [f"treering {each}" for each in commands if each not in COMMANDS]


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_operations_and_commands_that_are_named_exist(page: Path) -> None:
    assert missing_operations(page.read_text()) == []


def test_an_operation_that_does_not_exist_is_seen() -> None:
    text = "Call `vault.mend()`, `tr.Voult`, or `treering add V`; `vault.ask` and `treering ask V` exist."
    assert missing_operations(text) == ["vault.mend", "tr.Voult", "treering add"]


def test_every_target_is_documented_for_contributors() -> None:
    assert make_targets() - {"help"} <= named_targets((ROOT / "CONTRIBUTING.md").read_text())


def test_the_readme_says_exactly_two_commands() -> None:
    """Two that set everything up; what can be tried afterwards is tested by `test_newcomer`."""
    first, *others = [block for block in blocks((ROOT / "README.md").read_text()) if block.info == "sh"]
    assert [line.split("#")[0].strip() for line in first.code.splitlines()] == ["make demo", "make test"]
    assert all(line.startswith(".venv/bin/treering ") for block in others for line in block.code.splitlines())


def test_ci_runs_the_command_that_people_run() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert script[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in script
    assert script[-1] == "make test"


def test_every_page_of_the_documentation_is_linked_from_its_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text())}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= listed


def test_a_broken_link_is_seen() -> None:
    page = ROOT / "README.md"
    assert broken_links(page, "[a](docs/nothing.md) [b](docs/index.md) [c](#no-such-heading)") == [
        "docs/nothing.md",
        "#no-such-heading",
    ]


def test_targets_are_found_in_spans_and_shell_blocks() -> None:
    text = "Run `make check` first, or make nothing.\n\n```sh\nmake demo   # a\ncd x\n```\n"
    assert named_targets(text) == {"check", "demo"}
    assert {"demo", "test", "check", "bench", "lock"} <= make_targets()


def absent_tests(text: str) -> list[str]:
    """The tests that a table names, after their file, and that are not there."""
    absent = []
    for row in (line for line in text.splitlines() if line.startswith("| ")):
        for path, named in re.findall(r"`(tests/[\w/.]+)`: ([^;|]*)", row):
            code = (ROOT / path).read_text() if (ROOT / path).exists() else ""
            absent += [name for name in re.findall(r"`(test_\w+)`", named) if f"def {name}(" not in code]
    return absent


def test_the_tests_of_attacks_exist() -> None:
    page = (ROOT / "docs" / "vulnerabilities.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*`test_\w+` \|$", page, re.MULTILINE)
    assert [int(each) for each in rows] == [*range(1, 21)]
    assert absent_tests(page) == []
    assert absent_tests("| 1 | x | `tests/docs/test_pages.py`: `test_nothing` |") == ["test_nothing"]
