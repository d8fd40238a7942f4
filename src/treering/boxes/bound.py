"""A box learns its schema once: what the boxes of this package have in common."""

from __future__ import annotations

import copy
from typing import Self

from treering.boxes.base import Box
from treering.domain.schema import Schema
from treering.errors import GuaranteeError, ParameterError, SchemaError
from treering.gate import Gate


class SchemaBox(Box):
    """A box that is made without a schema and bound to one later. Binding leaves the box as it was."""

    def __init__(self) -> None:
        self._bound: Schema | None = None

    @property
    def schema(self) -> Schema:
        """The universe that it is bound to."""
        if self._bound is None:
            raise ParameterError("schema", f"is not known to this {type(self).__name__} yet: bind(schema) it first")
        return self._bound

    def bind(self, schema: Schema) -> Self:
        """This box for a universe. A bound box is itself, and refuses another one."""
        if self._bound is not None:
            if self._bound != schema:
                raise SchemaError(f"this {type(self).__name__} is bound to another schema")
            return self
        bound = copy.copy(self)
        bound._bound = schema
        bound._prepare(schema)
        return bound

    def _check(self, gate: Gate) -> None:
        """Refuse a gate to another universe, or to no rows, before anything is asked of it."""
        if gate.schema != self.schema:
            raise SchemaError(f"this {type(self).__name__} is bound to another schema than the database's")
        if gate.size == 0:
            raise GuaranteeError("the database is empty: a share of its rows needs at least one")

    def _prepare(self, schema: Schema) -> None:
        """What is to be done once the schema is known, or why it cannot be."""
