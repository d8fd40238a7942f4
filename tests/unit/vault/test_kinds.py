"""Every event, and everything that a mechanism of ours notes, is on the list of what a vault keeps."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import Any, get_args

import pytest

from support.repository import ROOT
from treering.gate import Event
from treering.trusted import registry
from treering.trusted.ledger.codec.events import EVENTS, LATER, PARTS
from treering.trusted.ledger.codec.fields import Fields
from treering.vault.kinds import NOTES

PACKAGE = ROOT / "src" / "treering"
NOTING = {"note", "_note", "condense", "condense_segment", "end_segment"}
"""The names of what records a note, by its last argument."""


MARKS = ("NOTE:", "A note:")
"""How the docstring of a note begins."""


def noted(source: str) -> tuple[set[str], int]:
    """The classes that a module notes; and how often it notes something that is not made on the spot."""
    names: set[str] = set()
    others = 0
    for node in ast.walk(ast.parse(source)):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if isinstance(node, ast.Call) and called in NOTING and node.args:
            made = node.args[-1]
            if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
                names.add(made.func.id)
            else:
                others += 1
    return names, others


def programs() -> dict[str, str]:
    folders = ("mechanisms", "schedulers", "boxes", "learn")
    paths = [path for folder in folders for path in (PACKAGE / folder).rglob("*.py")]
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}


def test_every_event_is_on_the_list() -> None:
    assert {*EVENTS, *LATER} == set(get_args(Event))


def test_everything_that_is_noted_is_on_the_list() -> None:
    found = {name: noted(source) for name, source in programs().items()}
    names = set().union(*(names for names, _ in found.values()))
    assert {"Grown", "Learned", "Updated", "Summary", "EpochBegan"} <= names
    assert names <= {note.__name__ for note in NOTES}
    # Where a note is made elsewhere: the keeper's `_note` hands on what it is given, and the estimates of a series are
    # notes: when a segment ends, of a tree also in between, and of leaves that are counted by themselves.
    assert {name: others for name, (_, others) in found.items() if others} == {
        "schedulers/epochs.py": 1,
        "mechanisms/series/shelf.py": 2,
        "mechanisms/series/leaves.py": 1,
        "mechanisms/series/root.py": 1,
        "mechanisms/series/tree.py": 3,
    }


def test_a_note_that_is_not_on_the_list_would_be_seen() -> None:
    assert noted("self._gate.note(Fresh(1))\ngate.condense_segment(segment, Other())") == ({"Fresh", "Other"}, 0)
    assert noted("gate.note(something)") == (set(), 1)


def test_every_class_that_calls_itself_a_note_is_on_the_list() -> None:
    classes = [node for text in programs().values() for node in ast.walk(ast.parse(text)) if type(node) is ast.ClassDef]
    called = {node.name for node in classes if (ast.get_docstring(node) or "").startswith(MARKS)}
    assert called == {note.__name__ for note in NOTES if (note.__doc__ or "").startswith(MARKS)}
    assert len(called) == 19


def test_no_two_classes_have_one_name() -> None:
    """A class is written under its name, so that names, too, are for ever: the list below has them."""
    listed = [kind.__name__ for kind in (*EVENTS, *NOTES, *PARTS)]
    assert len(listed) == len(set(listed))
    with pytest.raises(TypeError, match="two classes of one name"):
        Fields((), (type("Same", (), {}), type("Same", (), {})), ())


FIELDS = {
    "Measured": "size cost queries noise values",
    "RunStarted": "size cost run request",
    "Compared": "size run asked crossing",
    "RunEnded": "size run refund",
    "HistogramReleased": "size cost attributes noise counts",
    "Selected": "size cost queries index",
    "RowsDrawn": "size cost queries rows cells",
    "ForeignReleased": "size cost values",
    "Minimised": "size cost problem method theta rows held",
    "Reserved": "size cost part",
    "ReservationEnded": "size",
    "Condensed": "size spent next_run runs note steps next_segment segments marks failures",
    "Discovered": "size cost request found",
    "Noted": "note",
    "Grown": "size",
    "Learned": "step change",
    "Corrected": "step change share",
    "Judged": "good",
    "Doubted": "",
    "Kept": "query share",
    "Summary": "start state histogram records",
    "Updated": "step",
    "Over": "",
    "Estimates": "sizes pieces past",
    "EpochBegan": "index size until beta alpha",
    "EpochOpened": "index",
    "EpochFailed": "index message",
    "Cost": "epsilon rho",
    "Budget": "kind total",
    "Laplace": "scale",
    "Gaussian": "scale",
    "RunRequest": "threshold_scale query_scale answer",
    "Crossing": "index value",
    "Problem": "loss dimension radius regularisation",
    "Logistic": "",
    "HuberHinge": "width",
    "Squared": "",
    "Distance": "",
    "Perturbation": "noise scale pitch iterations ridge start",
    "Descent": "schedule steps scale step_size start resolution rise",
    "Net": "pitch scale resolution most_dimensions",
    "Step": "query factors rate log_normaliser",
    "TightState": "potential size asked hard runs run measured streak patience doubts",
    "RunState": "handle number scales",
    "RunScales": "threshold query answer",
    "KeptHistogram": "vector total kept even steps",
    "KeptRecords": "records complements",
    "Piece": "start end cells",
    "Combined": "size cost groups spans noise values sums",
    "SegmentBegun": "size segment series start groups noise room sums",
    "Advanced": "size cost segment leaf patterns values",
    "SegmentCondensed": "size segment edges drawn note",
    "SegmentEnded": "size segment series charges note",
    "Marked": "size",
    "PersonsCounted": "size persons",
    "Opened": "series groups price registered sums",
    "Finished": "leaves end tails",
    "Groups": "axes table",
    "Span": "start end weight",
    "Ones": "leaves",
    "Root": "leaves",
    "Charge": "start end amount",
    "Steps": "everyone rows",
    "OpenSegment": "begun edges drawn",
    "Tail": "start counts variance",
    "HuberDistance": "width",
    "NoisyMoments": "scale ridge start refinement",
    "Refinement": "rounds errors slopes allowed",
    "RobustLogistic": "",
    "Tallied": "size drawn tally noise values",
    "Tally": "theta of cuts",
    "Counted": "start end leaves counts",
    "Scalar": "column kind zone part",
    "Grid": "low high step steps",
    "Sums": "scalar grid clipped counts",
    "Capped": "each most limit price sums",
    "Fading": "leaves",
    "KeptRings": "rings found",
    "Discovery": "scalar listed rows scale failure",
    "KeptRing": "opened state changed ended",
    "Changed": "counted ended",
    "KeptRoots": "finished edges releases",
}

REGISTERED = tuple(part for name in registry.OPERATIONS for part in registry.operation(name).parts)
LISTED: tuple[type[Any], ...] = (*EVENTS, *LATER, *NOTES, *PARTS, *REGISTERED)


def test_the_fields_of_the_format_stay() -> None:
    """A class that gets, loses or moves a field changes the ledger's lines: that takes another format."""
    assert {kind.__name__: " ".join(each.name for each in fields(kind)) for kind in LISTED} == FIELDS
