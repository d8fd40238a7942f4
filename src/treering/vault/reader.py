"""Reading a vault: its public state as plain values, and its verification, beside a writer if there is one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from typing import Any, NamedTuple

from treering.budget.cost import Cost
from treering.budget.promise import Budget
from treering.errors import DamagedVault
from treering.mechanisms.base import Answering
from treering.trusted.store import Entry, Line, Reading, Record, Spec, Verified
from treering.vault.kinds import NOTES
from treering.vault.members import shown
from treering.words import counted, readable


class Appended(NamedTuple):
    """A batch of rows, as the ledger tells of it."""

    seq: int
    """The number of its line."""
    time: float
    """When it came, in seconds since 1970."""
    rows: int


class VaultReader:
    """The public state of the vault in the folder ``path``, as it is at each call. Never blocked by a writer, and never
    blocks one."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._reading = Reading(path, NOTES)

    def status(self) -> dict[str, Any]:
        """The same as `Vault.status`. Of easy questions that a running writer has not recorded yet, all that are leased
        count."""
        record = self._reading.record()
        return status(record, shown(record, self._reading.events(record)))

    def ledger(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Every line of the ledger whose ``seq`` is above ``after``, oldest first, as in `Vault.ledger`."""
        return lines(self._reading, after)

    def batches(self, after: int = 0) -> list[Appended]:
        """The same as `Vault.batches`. Lines are not checked: `verify` does that."""
        return batches(self._reading, after)

    def verify(self, head: str | None = None) -> dict[str, Any]:
        """Check the vault: the chain of hashes, every row, part and secret, and that replay gives the same state.

        ``head`` is a ``head`` that `status` showed earlier: if it is not the hash of some line, the folder was set back
        to an earlier state. Raises `DamagedVault` if anything is wrong; otherwise returns what was checked. Of batches
        that were ``rewritten``, since rows of them were erased or corrected, the commitments that were made when they
        came can be checked no more, nor that only those rows were changed.
        """
        return verified(self._reading, self._reading.verify(head))


def lines(reading: Reading, after: int) -> Iterator[dict[str, Any]]:
    """See `VaultReader.ledger`."""
    plain = ledger(reading.lines(), reading.origin().promise.budget)
    return (line for line in plain if line["seq"] > after)


def batches(reading: Reading, after: int) -> list[Appended]:
    """See `VaultReader.batches`."""
    return [Appended(each.seq, each.time / 1e6, each.line.plain()["rows"]) for each in reading.batches(after)]


def verified(reading: Reading, found: Verified) -> dict[str, Any]:
    """What was verified, once replay of every mechanism from its first line gives what checkpoints give."""
    record = found.record
    quick, slow = shown(record, reading.events(record)), shown(record, found.events)
    for spec, one, other in zip(record.specs, quick, slow, strict=True):
        if one.state != other.state or one.spent != other.spent:
            raise DamagedVault(f"a checkpoint of {spec.name!r} is not what its lines give: delete the checkpoints")
    return {
        "entries": record.seq,
        "batches": len(record.batches),
        "parts": len(record.parts),
        "size": record.rows,
        "erased": len(record.gone),
        "rewritten": sum(batch.times > 0 for batch in record.batches),
        "mechanisms": len(record.specs),
        "head": record.head.hex(),
        "head_found": found.head_found,
        "spent": math.fsum(each.spent for each in slow),
    }


# -- public state as plain values --------------------------------------------------------------------------------------


def status(record: Record, mechanisms: Sequence[Answering]) -> dict[str, Any]:
    """Everything that is public about a vault, as plain values.

    At the top level, ``hard_queries``, ``potential``, ``guarantee`` and ``epochs`` are those of the first mechanism.
    """
    origin, promise = record.origin, record.origin.promise
    listed = [_mechanism(spec, each) for spec, each in zip(record.specs, mechanisms, strict=True)]
    total = promise.budget.total
    spent = math.fsum(each.spent for each in mechanisms)
    first: dict[str, Any] = listed[0] if listed else {}
    batches = record.batches
    return {
        "identity": origin.identity,
        "name": origin.name,
        "created": stamp(record.created),
        "cells": record.schema.cells,
        "versions": record.versions,
        "size": record.rows,
        "erased": len(record.gone),
        "batches": len(batches),
        "dropped": sum(batch.dropped for batch in batches),
        "epsilon": float(promise.epsilon),
        "delta": float(promise.delta),
        "rows_per_person": promise.rows_per_person,
        "person": origin.person,
        "promise": _promise(record),
        "unit": promise.budget.unit,
        "total": float(total),
        "spent": spent,
        "remaining": max(0.0, float(total) - spent),
        "share_left": float(1 - sum((spec.share for spec in record.specs), Fraction(0))),
        "hard_queries": first.get("hard_queries"),
        "potential": first.get("potential"),
        "guarantee": first.get("guarantee"),
        "epochs": first.get("epochs"),
        "mechanisms": listed,
        "source": None if origin.source is None else origin.source.get("identity"),
        "entries": record.seq,
        "head": record.head.hex(),
    }


def ledger(entries: Iterable[Entry], budget: Budget) -> Iterator[dict[str, Any]]:
    """The lines of a ledger as plain values: ``cost`` is what each row pays that the line is about, in the promise's
    unit, and a refund is negative.

    A leaf of a segment (`Advanced`) is about the rows since the leaf before, and when the segment ends, the line says
    what they have paid in the end. All else is about the rows that there are: without segments, the costs sum to what
    is spent. Operations within a reservation cost 0, because the reservation was charged.
    """
    names: dict[int, str] = {}
    reserved: set[int] = set()
    for each in entries:
        line, plain = each.line, each.line.plain()
        kind = _kind(line, plain)
        if kind == "ReservationEnded":
            reserved.discard(line.mechanism)
        yield {
            "seq": each.seq,
            "time": stamp(each.time),
            "kind": kind,
            "mechanism": plain["name"] if kind == "mechanism" else names.get(line.mechanism),
            "cost": 0.0 if line.mechanism in reserved else _cost(plain, budget),
            "size": plain.get("size"),
            "key": line.key or None,
            "hash": each.hash.hex(),
            "body": plain,
        }
        if kind == "mechanism":
            names[len(names)] = plain["name"]
        elif kind == "Reserved":
            reserved.add(line.mechanism)


def _kind(line: Line, plain: dict[str, Any]) -> str:
    """The kind of a line; for an event, the event's name; for a note of one class, that class's name."""
    if line.kind != "event":
        return line.kind
    name = str(plain["event"])
    note = plain.get("note")
    return next(iter(note)) if name == "Noted" and isinstance(note, dict) and len(note) == 1 else name


def stamp(microseconds: int) -> str:
    """A time, given in microseconds since 1970, in ISO 8601 and UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds")


def _promise(record: Record) -> str:
    promise = record.origin.promise
    rows = promise.rows_per_person
    whole = f"epsilon {readable(float(promise.epsilon), 6)}"
    each = f"{promise.budget.unit} {readable(float(promise.budget.total))}"
    if promise.delta:
        whole += f", delta {float(promise.delta):g}"
    if promise.aside:
        whole += f" ({float(promise.failure):g} of it for discoveries)"
    if rows == 1:
        return f"{whole}, for one row, for ever" + (f" ({each})" if promise.delta else "")
    return f"{whole}, for a person with up to {counted(rows, 'row')}, for ever: {each} for one row"


def _mechanism(spec: Spec, mechanism: Answering) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "share": float(spec.share),
        "options": spec.options,
        **mechanism.describe(),
    }


def _cost(plain: dict[str, Any], budget: Budget) -> float:
    """The cost of a line, in the promise's unit; a refund is negative."""
    if "refund" in plain:
        return -float(Fraction(plain["refund"]))
    cost = plain.get("cost")
    if not isinstance(cost, dict):
        return 0.0
    pure = cost.get("epsilon")
    return float(budget.amount(Cost(None if pure is None else Fraction(pure), Fraction(cost["rho"]))))
