"""No cycle between modules, and none between the rooms of any folder: modules and packages side by side."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from support.imports import Graph, imports_of_package, neighbours


def cycle(graph: Graph) -> list[str]:
    """One cycle of a graph, [] if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


GRAPH = imports_of_package()
FOLDERS = sorted({module.rpartition(".")[0] for module in GRAPH if "." in module})


def test_no_cycle_between_modules() -> None:
    assert cycle(GRAPH) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_cycle_between_the_rooms_of_a_folder(folder: str) -> None:
    assert cycle(neighbours(GRAPH, folder)) == []


def test_a_cycle_is_seen() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []
    graph = {"p.x.one": {"p.y"}, "p.y": {"p.x.two"}, "p.x.two": set[str]()}
    assert cycle(graph) == []
    assert cycle(neighbours(graph, "p")) != []


def test_the_whole_package_is_read() -> None:
    assert "treering.trusted.rows.kept" in GRAPH["treering.trusted.kernel"]
    assert len(GRAPH) > 100
