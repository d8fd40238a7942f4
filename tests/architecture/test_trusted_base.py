"""What an auditor reads: docs/privacy.md lists the modules that the promise rests on, and they are these; and those
that registered operations add."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import treering as tr
from support.code_lines import code_lines
from support.imports import closure, imports_of_package, modules
from support.repository import ROOT
from treering.trusted import registry

PAGE = ROOT / "docs" / "privacy.md"
ROOT_MODULE = "treering.trusted.store"
PUBLIC = ("mechanisms", "schedulers", "boxes", "theory", "learn", "cli", "demo", "audit")
"""What nobody needs to believe: the promise holds whatever is in there."""

GRAPH = imports_of_package(type_checking=False)


def homes(*lists: Mapping[str, str]) -> list[str]:
    """The modules that hold what these lists name."""
    return sorted({place.partition(":")[0] for each in lists for place in each.values()})


BASE = closure(GRAPH, ROOT_MODULE)
REGISTERED = homes(registry.OPERATIONS)
WITH_OPERATIONS = closure(GRAPH, ROOT_MODULE, *REGISTERED)
BESIDE = homes(registry.PERSONS, registry.FILES, registry.ENGINES, registry.NAMED)
"""What reads files and lists of dicts, connects to engines, makes vaults and keeps rows in memory: loaded when it is
met, too."""
ALL = closure(GRAPH, ROOT_MODULE, *REGISTERED, *BESIDE)
MOST_LINES = 9_000
"""Of code, in the base without registered operations."""


def lines_of(module: str) -> int:
    """The lines of code of a module."""
    return code_lines(modules()[module].read_text())


def table(base: Iterable[str]) -> str:
    """The table as it should be: a folder a line, with its modules and their lines of code. Packages' fronts count."""
    base = sorted(base)
    files = modules()
    rooms: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for module in base:
        path = files[module]
        folder = path.parent.relative_to(ROOT / "src").as_posix()
        rooms[folder].append((path.stem, code_lines(path.read_text())))
    lines = ["| folder | modules | lines of code |", "|---|---|---|"]
    for folder, found in sorted(rooms.items()):
        names = ", ".join(f"`{name}`" for name, count in sorted(found) if count)
        lines.append(f"| `{folder}/` | {names} | {sum(count for _, count in found):,} |")
    total = sum(count for found in rooms.values() for _, count in found)
    return "\n".join([*lines, f"| **together** | {len(base)} files | **{total:,}** |"])


def test_the_base_holds_no_mechanism_scheduler_box_or_theorem() -> None:
    assert [module for module in BASE if module.split(".")[1] in PUBLIC] == []


def test_the_base_neither_reads_nor_writes_the_texts_of_queries() -> None:
    assert [module for module in BASE if module.startswith(("treering.domain.language", "treering.domain.text"))] == []


def test_the_page_lists_what_an_auditor_reads() -> None:
    shown = re.findall(r"^\| folder \| modules .*?(?=\n\n)", PAGE.read_text(), flags=re.M | re.S)
    assert shown == [table(BASE), table(WITH_OPERATIONS - BASE), table(ALL - WITH_OPERATIONS)]


def test_the_page_says_how_much_all_of_it_is() -> None:
    lines = [sum(map(lines_of, base)) for base in (BASE, WITH_OPERATIONS, ALL)]
    found = re.findall(r"\*\*([\d,]+) lines of code\*\*", PAGE.read_text())
    assert found == [f"{each:,}" for each in lines]


def test_the_base_is_small() -> None:
    assert sum(map(lines_of, BASE)) <= MOST_LINES


def test_what_is_loaded_when_it_is_met_holds_no_mechanism_scheduler_box_or_theorem_either() -> None:
    assert [module for module in ALL if module.split(".")[1] in PUBLIC] == []


def test_all_of_the_trusted_base_is_listed() -> None:
    assert {module for module in modules() if module.startswith("treering.trusted.")} <= ALL


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault at rest, with rows."""
    place = tmp_path_factory.mktemp("vaults") / "vault"
    schema = tr.Schema({"late": tr.categories("no", "yes")})
    with tr.Vault.create(place, schema, epsilon=1.0, delta=1e-9) as vault:
        vault.append([{"late": "no"}] * 100)
        vault.ask("late = 'yes'")
    return place


@pytest.mark.parametrize("module", [*REGISTERED, *BESIDE])
def test_what_is_not_met_is_not_loaded(module: str, vault: Path) -> None:
    """A vault is opened, grows and is asked; what boxes, learning, files and engines need is not there."""
    code = f"""
import sys, pyarrow as pa, treering as tr
with tr.Vault.open({str(vault)!r}) as vault:
    vault.append(pa.table({{"late": ["no"] * 100}}))
    vault.ask("late = 'yes'")
assert "treering.trusted.kernel" in sys.modules
assert {module!r} not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_mechanism_in_the_base_would_be_seen() -> None:
    graph = {**GRAPH, "treering.trusted.cells": {*GRAPH["treering.trusted.cells"], "treering.theory.tails"}}
    assert "treering.theory.tails" in closure(graph, ROOT_MODULE)
    assert "treering.theory.tails" not in BASE
