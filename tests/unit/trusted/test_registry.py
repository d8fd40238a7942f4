"""The registered operations: a closed list; their names are methods of the gate, their events are the gate's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import treering.gate as gate
from treering.protocols import Gate
from treering.trusted import registry
from treering.trusted.kernel import Kernel
from treering.trusted.operations.base import Operation


@pytest.mark.parametrize("name", registry.OPERATIONS)
def test_every_name_is_a_method_of_the_gate_and_of_the_kernel(name: str) -> None:
    assert callable(getattr(Gate, name))
    assert callable(getattr(Kernel, name))
    assert issubclass(registry.operation(name), Operation)


def test_every_operation_has_one_event_of_the_gate() -> None:
    assert sorted(registry.EVENTS.values()) == sorted(registry.OPERATIONS)
    assert all(isinstance(getattr(gate, name), type) for name in registry.EVENTS)


@pytest.mark.parametrize("name", [*registry.FILES, *registry.ENGINES, *registry.NAMED])
def test_every_part_is_there_under_its_name(name: str) -> None:
    assert registry.part(name).__name__ == name


@pytest.mark.parametrize("load", [registry.operation, registry.part])
def test_rejects_name_that_is_not_on_the_list(load: Callable[[str], Any]) -> None:
    with pytest.raises(KeyError):
        load("treering.theory.tails:tail")
