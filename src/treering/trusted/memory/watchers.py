"""Who is told that a database has grown."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from weakref import WeakMethod

from treering.errors import ParameterError


class Watchers:
    """Methods to call after every append, held by weak references: watching keeps no object alive."""

    def __init__(self) -> None:
        self._methods: list[WeakMethod[Callable[[], None]]] = []

    def add(self, grown: Callable[[], None]) -> None:
        """Call the method ``grown`` from now on."""
        if not inspect.ismethod(grown):
            raise ParameterError("grown", "must be a method of an object, which is called while the object lives")
        self._methods.append(WeakMethod(grown))

    def call(self) -> None:
        """Call every method whose object is alive: the database has grown."""
        self._methods = [method for method in self._methods if method() is not None]
        for method in tuple(self._methods):
            grown = method()
            if grown is not None:
                grown()
