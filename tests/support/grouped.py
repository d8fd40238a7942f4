"""The groups of rows that are given by the codes of a schema, one by one."""

from __future__ import annotations

import numpy as np

from treering.arrays import Ints
from treering.domain.axis import Axis, axes_of
from treering.domain.groups import Groups
from treering.domain.schema import Schema


def labels_of(groups: Groups, schema: Schema) -> list[tuple[int, Ints]]:
    """For each axis, an attribute about the same scalar, and the class of each of its codes: by looking at every piece
    of values that the axis or the attribute tells apart."""
    found = []
    for axis in groups.axes:
        listed = [(position, _labels(axis, each)) for position, each in enumerate(axes_of(schema))]
        found.append(next((position, labels) for position, labels in listed if labels is not None))
    return found


def _labels(axis: Axis, attribute: Axis) -> Ints | None:
    if axis.scalar != attribute.scalar:
        return None
    labels: dict[int, int] = {}
    if axis.by_list:
        shown = dict(zip(axis.listed, axis.classes.tolist(), strict=False))
        classes = [
            *(shown.get(value, int(axis.classes[-3])) for value in attribute.listed),
            *axis.classes[-3:].tolist(),
        ]
    else:
        starts = [None, *attribute.cuts.tolist()]
        pieces = [0 if start is None else int(np.searchsorted(axis.cuts, start, side="right")) for start in starts]
        classes = [*axis.classes[pieces].tolist(), *axis.classes[-2:].tolist()]
        if not set(axis.cuts.tolist()) <= set(attribute.cuts.tolist()):
            return None
    for code, label in zip(attribute.classes.tolist(), classes, strict=True):
        if code >= 0 and labels.setdefault(code, label) != label:
            return None
    return np.array([labels[code] for code in range(attribute.number)], dtype=np.int64)


def place_of(groups: Groups, schema: Schema, codes: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Ints:
    """The group of each row, given by its codes, a line for each attribute of the schema; −1: in no group."""
    place = np.zeros(codes.shape[1], dtype=np.int64)
    for (position, labels), size in zip(labels_of(groups, schema), groups.shape, strict=True):
        place = place * size + labels[codes[position]]
    return place if groups.table is None else groups.table.reshape(-1)[place]


def cells_of(groups: Groups, schema: Schema) -> list[int]:
    """The group of each cell of the universe."""
    every = np.array(np.unravel_index(np.arange(schema.cells), schema.shape), dtype=np.int64)
    return [int(each) for each in place_of(groups, schema, every)]
