"""The registered operations: a closed list; their names are methods of the gate, their events are the gate's."""

from __future__ import annotations

import pytest

import treering.gate as gate
from treering.trusted import registry
from treering.trusted.kernel import Kernel
from treering.trusted.operations.base import Operation


@pytest.mark.parametrize("name", registry.OPERATIONS)
def test_every_name_is_a_method_of_the_gate_and_of_the_kernel(name: str) -> None:
    assert callable(getattr(gate.Gate, name))
    assert callable(getattr(Kernel, name))
    assert issubclass(registry.operation(name), Operation)


def test_every_operation_has_one_event_of_the_gate() -> None:
    assert sorted(registry.EVENTS.values()) == sorted(registry.OPERATIONS)
    assert all(isinstance(getattr(gate, name), type) for name in registry.EVENTS)


def test_rejects_name_that_is_not_on_the_list() -> None:
    with pytest.raises(KeyError):
        registry.operation("treering.theory.tails:tail")
