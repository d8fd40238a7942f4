"""What is on no list is not written, and what was not written so is not read: typed errors, and no private value."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treering as tr
from support.event_lines import JFK, LINES, SCHEMA, TENTH
from support.events import decode, encode, reread
from treering import gate
from treering.domain.loss import Logistic
from treering.domain.problem import Net, Problem
from treering.errors import DamagedVault, VaultError
from treering.mechanisms.state import Grown
from treering.noise import Laplace
from treering.trusted.ledger.codec.events import _dumps

# -- what cannot be written --------------------------------------------------------------------------------------------


def untyped(value: object) -> Any:
    """For arguments that a type checker would refuse, and a program may still give."""
    return value


class _OwnLoss(Logistic):
    """Somebody's own."""


class _Secret:
    """Not on the list."""

    def __repr__(self) -> str:
        return "private"


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("event", "match"),
    [
        (gate.Noted(_Secret()), r"Noted.note holds _Secret: a vault cannot keep it"),
        (gate.Noted([{"a": _Secret()}]), "holds _Secret"),
        (gate.Noted({1, 2}), "holds set"),
        (gate.Noted(b"bytes"), "holds bytes"),
        (gate.Noted(gate.Marked(9)), "holds Marked"),
        (gate.Noted(np.array([_Secret()])), "is not an array of numbers"),
        (gate.Noted(np.array(["a"])), "is not an array of numbers"),
        (gate.Noted(_cycle()), "too deeply"),
        (gate.Noted(Grown(untyped("9"))), "Grown.size is str, not an integer"),
        (gate.Minimised(9, TENTH, Problem(_OwnLoss(), 2), Net(0.5, 2.0), ()), "Problem.loss is _OwnLoss, not one of"),
        (gate.Marked(True), "Marked.size is bool, not an integer"),
        (gate.Measured(9, TENTH, untyped([JFK]), Laplace(2.0), ()), "Measured.queries is list, not a tuple"),
        (gate.HistogramReleased(9, TENTH, (0,), Laplace(2.0), untyped(np.zeros(2))), "array of float64, not of int64"),
        (gate.Crossing(1, 2), "Crossing is no event"),
        (_Secret(), "_Secret is no event"),
    ],
    ids=str,
)
def test_what_is_not_on_the_list_is_refused(event: Any, match: str) -> None:
    with pytest.raises(VaultError, match=match) as caught:
        encode(event)
    assert "private" not in str(caught.value)


# -- what cannot be read -----------------------------------------------------------------------------------------------

CUT = '{"event":"Compared","size":9,"run":0,"asked":3,"crossing":null}'
STARTED = LINES[1][1]
MEASURED = LINES[0][1]
ORIGIN = '"origin":{"listed":["JFK"],"classes":[1,0,0,0]}'
MONTH = '"month":{"cuts":[3,12],"classes":[1,0,1,1,1]}'
HISTOGRAM = LINES[5][1]
MINIMISED = next(line for event, line in LINES if type(event) is gate.Minimised)
CONDENSED = next(line for event, line in LINES if type(event) is gate.SegmentCondensed)
RESERVED = next(line for event, line in LINES if type(event) is gate.Reserved)
RECORD = next(line for event, line in LINES if type(event) is gate.Condensed)
ADVANCED = next(line for event, line in LINES if type(event) is gate.Advanced)
OF_ROWS = next(line for event, line in LINES if type(event) is gate.Minimised and event.rows is not None)


@pytest.mark.parametrize(
    ("line", "old", "new", "match"),
    [
        (CUT, CUT, "", "not JSON"),
        (CUT, CUT, "null", "not one JSON object"),
        (CUT, CUT, "[" * 100_000, "JSON|nested"),
        (CUT, "null}", "null", "not JSON"),
        (CUT, "null}", "null}{}", "not one JSON object"),
        (OF_ROWS, '"rows":[4,9]', '"rows":[4,9,9]', "Minimised.rows is not a list of 2"),
        (OF_ROWS, '"rows":[4,9]', '"rows":[4,"9"]', "Minimised.rows is not an integer"),
        (RECORD, '"marks":[4]', '"marks":[4.0]', "Condensed.marks is not an integer"),
        (RECORD, '[4,"1/4"]', '[4,"1/4",0]', "Steps.everyone is not a list of 2"),
        (ADVANCED, "Ones", "Twos", "Advanced.patterns is not one of Ones, Root, Fading"),
        (CUT, "Compared", "compared", "names no event"),
        (CUT, "Compared", "Grown", "names no event"),
        (CUT, '"Compared"', "[]", "names no event"),
        (CUT, ',"asked":3', "", "Compared has the fields size, run, asked, crossing"),
        (CUT, ',"asked":3', ',"asked":3,"more":1', "Compared has the fields"),
        (CUT, '"run":0,"asked":3', '"asked":3,"run":0', "Compared has the fields"),
        (CUT, '"asked":3', '"asked":3,"asked":3', "twice"),
        (CUT, '"asked":3', '"asked":3.0', "Compared.asked is not an integer"),
        (CUT, '"asked":3', '"asked":true', "Compared.asked is not an integer"),
        (CUT, '"asked":3', '"asked":null', "Compared.asked is not an integer"),
        (CUT, '"asked":3', '"asked":"0x3_3"', "Compared.asked is not an integer"),
        (CUT, '"asked":3', '"asked":NaN', "not JSON"),
        (CUT, '"asked":3', '"asked":' + "3" * 5000, "not JSON"),
        (STARTED, "1.5", '"1.5"', "threshold_scale is not"),
        (STARTED, "1.5", '"nan:7ff8000000000000"', "threshold_scale is not a number"),
        (STARTED, "1.5", "-1.5", "RunRequest cannot have such fields"),
        (STARTED, "1.5", '"nan"', "RunRequest cannot have such fields"),
        (STARTED, "Gaussian", "Cost", "answer is not one of Laplace, Gaussian"),
        (STARTED, '"scale":2.0', '"scale":[]', "Gaussian.scale is not a number"),
        (STARTED, '"rho":"1/8"', '"rho":"2/16"', "Cost.rho is not a fraction in lowest terms"),
        (STARTED, '"rho":"1/8"', '"rho":"1/0"', "Cost.rho is not a fraction"),
        (STARTED, '"rho":"1/8"', '"rho":"-1/8"', "Cost cannot have such fields"),
        (STARTED, '"rho":"1/8"', '"rho":"1"', "Cost.rho is not"),
        (STARTED, '"rho":"1/8"', '"rho":" 1/8"', "Cost.rho is not an integer"),
        (STARTED, '"rho":"1/8"', '"rho":0.125', "Cost.rho is not a fraction"),
        (MEASURED, '"origin":', '"colour":', "names an attribute that the schema does not have"),
        (MEASURED, ORIGIN + "," + MONTH, MONTH + "," + ORIGIN, "in another order"),
        (MEASURED, '"cuts":[3,12]', '"cuts":[3,14]', "tells values apart that the schema does not"),
        (MEASURED, '"cuts":[3,12]', '"cuts":[12,3]', "no condition on values"),
        (MEASURED, '"cuts":[3,12]', '"cuts":["3",12]', "lists numbers of another type"),
        (MEASURED, '"cuts":[3,12]', '"cuts":3', "is not an array"),
        (MEASURED, "[1,0,1,1,1]", "[1,1,1,1,1]", "not in its simplest form"),
        (MEASURED, "[1,0,1,1,1]", "[1,0,1,1]", "no condition on values"),
        (MEASURED, '"listed":["JFK"]', '"listed":["JFK","LGA"]', "no condition on values"),
        (MEASURED, '"listed":["JFK"]', '"listed":["BOS"]', "tells values apart that the schema does not"),
        (MEASURED, '"listed":["JFK"]', '"listed":[1]', "lists values of another type"),
        (MEASURED, '"scale":1,', '"scale":0,', "outside of 0 to its scale"),
        (MEASURED, '"scale":1,', '"scale":true,', "not an integer"),
        (MEASURED, '"scale":1,', "", "neither a conjunction nor a table"),
        (MEASURED, "[1,1,1,0]", "[1,1,2,0]", "outside of 0 to its scale"),
        (MEASURED, "[1,1,1,0]", "[1,0,1,0]", "simplest form"),
        (MEASURED, "[1,1,1,0]", "[0,1,1,1,0]", "number of entries"),
        (MEASURED, '"shape":[2,2]', '"shape":[4,1]', "another shape"),
        (MEASURED, "<i8", "<i4", "another shape"),
        (HISTOGRAM, "<i8", "<i4", "not an array of int64"),
        (HISTOGRAM, "<i8", "O", "no dtype"),
        (HISTOGRAM, "<i8", "i8,i8", "no dtype"),
        (HISTOGRAM, '"shape":[2,2]', '"shape":[-2,-2]', "no shape"),
        (HISTOGRAM, '"shape":[2,2]', '"shape":[1099511627776,1099511627776]', "too large"),
        (HISTOGRAM, "[3,-1,0,7]", "[3,-1,0,9223372036854775808]", "too large"),
        (HISTOGRAM, "[3,-1,0,7]", "[3,-1,0,7.0]", "not integers"),
        (HISTOGRAM, '"values"', '"value"', "not packed bytes"),
        (CONDENSED, "Estimates", "estimates", "holds something unknown"),
        (CONDENSED, "b:AAAAAAAA4D8AAAAAAAD4Pw==", "b:AAAAAAAA4D8AAAAAAAD4", "another length"),
        (CONDENSED, "b:AAAAAAAA4D8AAAAAAAD4Pw==", "b:AAAAAAAA4D8AAAAAAAD4P", "cannot be unpacked"),
        (CONDENSED, "b:AAAAAAAA4D8AAAAAAAD4Pw==", "b:AAAAAAAA4D8AAAAAAAD4Px==", "stray bits"),
        (CONDENSED, "b:AAAAAAAA4D8AAAAAAAD4Pw==", "eAAAA", "not packed bytes"),
        (CONDENSED, '[[0,1],{"start"', '[[0,1,2],{"start"', "not a list of 2"),
        (MINIMISED, "HuberHinge", "Hinge", "Problem.loss is not one of"),
        (MINIMISED, '"dimension":2', '"dimension":0', "Problem cannot have such fields"),
        (RESERVED, '"pure"', '"zCDP"', "Budget.kind is not one of pure, zcdp"),
    ],
)
def test_a_damaged_line_is_refused(line: str, old: str, new: str, match: str) -> None:
    assert old in line
    decode(line, SCHEMA)
    with pytest.raises(DamagedVault, match=f"a line of the ledger cannot be read: .*({match})"):
        decode(line.replace(old, new, 1), SCHEMA)


@pytest.mark.parametrize(
    "note",
    [
        '{"os.system":"x"}',
        '{"int":5}',
        '{"float":0.5}',
        '{"Marked":{"size":9}}',
        '{"list":{}}',
        '{"dict":[[[],1],[[],1]]}',
        '{"dict":[[{"list":[]},1]]}',
        '{"a":1,"b":2}',
        "{}",
        '{"Grown":null}',
        '{"Grown":{}}',
    ],
)
def test_a_note_of_something_else_is_refused(note: str) -> None:
    with pytest.raises(DamagedVault):
        decode('{"event":"Noted","note":' + note + "}", SCHEMA)


def test_a_value_that_was_read_before_opens_no_door_for_one_of_another_type() -> None:
    """1, 1.0 and true are equal: what is remembered must tell them apart."""
    line = HISTOGRAM.replace("20.0", "1")
    assert type(decode(line, SCHEMA)) is gate.HistogramReleased
    with pytest.raises(DamagedVault, match="Laplace.scale"):
        decode(line.replace('"scale":1', '"scale":true'), SCHEMA)
    reread([gate.Measured(9, TENTH, (), Laplace(scale), ()) for scale in (1, 1.0, 1)], SCHEMA)


def test_a_packed_array_is_not_unpacked_beyond_its_length() -> None:
    """A few bytes that claim to be a handful of zeros, and would unpack to a gigabyte."""
    line = encode(gate.HistogramReleased(9, TENTH, (0,), Laplace(2.0), np.zeros(10**6, np.int64)))
    with pytest.raises(DamagedVault, match="another length"):
        decode(line.replace("[1000000]", "[100]"), SCHEMA)
    with pytest.raises(DamagedVault, match="another length"):
        decode(line.replace("[1000000]", "[1000001]"), SCHEMA)


def test_a_number_beyond_the_floats_is_not_read_as_an_infinity() -> None:
    line = encode(gate.ForeignReleased(9, TENTH, (1.5, 2)))
    with pytest.raises(tr.DamagedVault, match="a number beyond the floats"):
        decode(line.replace("1.5", "1e999"), SCHEMA)


def test_a_line_about_another_schema_is_refused() -> None:
    with pytest.raises(DamagedVault, match="schema does not have"):
        decode(MEASURED, tr.Schema({"x": tr.integers(0, 1)}))


@given(place=st.integers(0, 10**6), flip=st.integers(1, 127), which=st.integers(0, len(LINES) - 1))
@settings(max_examples=300, deadline=None)
def test_a_flipped_bit_gives_another_event_or_a_typed_error(place: int, flip: int, which: int) -> None:
    line = LINES[which][1]
    at = place % len(line)
    changed = line[:at] + chr(ord(line[at]) ^ flip) + line[at + 1 :]
    try:
        event = decode(changed, SCHEMA)
    except VaultError:
        return
    assert json.loads(encode(event)) == json.loads(changed)


def test_what_is_no_number_of_json_is_not_written_as_one() -> None:
    """Codecs write such numbers as texts; one that slipped through would make a line that nobody can read."""
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            _dumps({"value": value})
