"""What an auditor reads: docs/privacy.md lists the modules that the promise rests on, and they are these."""

from __future__ import annotations

import re
from collections import defaultdict

from support.code_lines import code_lines
from support.imports import closure, imports_of_package, modules
from support.repository import ROOT

PAGE = ROOT / "docs" / "privacy.md"
ROOTS = ("treering.trusted.shares", "treering.trusted.rows.parts", "treering.trusted.ledger.journal")
PUBLIC = ("mechanisms", "schedulers", "boxes", "theory", "learn", "cli", "demo", "audit")
"""What nobody needs to believe: the promise holds whatever is in there."""

GRAPH = imports_of_package(type_checking=False)
BASE = sorted(closure(GRAPH, *ROOTS))


def table() -> str:
    """The table as it should be: a folder a line, with its modules and their lines of code. Packages' fronts count."""
    files = modules()
    rooms: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for module in BASE:
        path = files[module]
        folder = path.parent.relative_to(ROOT / "src").as_posix()
        rooms[folder].append((path.stem, code_lines(path.read_text())))
    lines = ["| folder | modules | lines of code |", "|---|---|---|"]
    for folder, found in sorted(rooms.items()):
        names = ", ".join(f"`{name}`" for name, count in sorted(found) if count)
        lines.append(f"| `{folder}/` | {names} | {sum(count for _, count in found):,} |")
    total = sum(count for found in rooms.values() for _, count in found)
    return "\n".join([*lines, f"| **together** | {len(BASE)} files | **{total:,}** |"])


def test_the_base_holds_no_mechanism_scheduler_box_or_theorem() -> None:
    assert [module for module in BASE if module.split(".")[1] in PUBLIC] == []


def test_the_base_neither_reads_nor_writes_the_texts_of_queries() -> None:
    assert [module for module in BASE if module.startswith(("treering.domain.language", "treering.domain.text"))] == []


def test_the_page_lists_what_an_auditor_reads() -> None:
    (shown,) = re.findall(r"^\| folder \| modules .*?(?=\n\n)", PAGE.read_text(), flags=re.M | re.S)
    assert shown == table()


def test_a_mechanism_in_the_base_would_be_seen() -> None:
    graph = {**GRAPH, "treering.trusted.cells": {*GRAPH["treering.trusted.cells"], "treering.theory.tails"}}
    assert "treering.theory.tails" in closure(graph, *ROOTS)
    assert "treering.theory.tails" not in BASE
