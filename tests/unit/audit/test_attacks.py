"""The registry of attacks: one for every mechanism, each on real neighbours, and each able to accuse."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest

from treering.audit.attacks import SCHEMA, YES, Attack, arriving, attacks, chosen, worst
from treering.audit.neighbours import Stream
from treering.errors import ParameterError

ALL = {attack.mechanism: attack for attack in attacks()}
MECHANISMS = {
    *("ATG", "NATG", "NSG", "PMW", "PMWG", "ContinualHistogram", "HistogramBox", "AnswersBox", "MWEM", "SmallDB"),
    *("BBScheduler", "BBImprover", "ERM"),
}


def test_every_mechanism_is_attacked_once() -> None:
    assert set(ALL) == MECHANISMS
    assert len(attacks()) == len(MECHANISMS)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_an_attack_is_on_neighbours_and_runs(name: str) -> None:
    left, right = ALL[name].pair
    rows = [[row for batch in side.batches for row in batch] for side in (left, right)]
    assert left.sizes == right.sizes
    assert sum(one != other for one, other in zip(*rows, strict=True)) == 1
    for side in (left, right):
        hash(ALL[name].run(side))


@pytest.mark.parametrize("name", ["HistogramBox", "AnswersBox"])
def test_what_is_found_is_within_the_claim_and_more_than_nothing(name: str) -> None:
    """False alarms: 1e-7 each. The event of these two has probabilities near 0.07 and 0.5 (`support.box_audit`)."""
    found = ALL[name].find()
    assert 0.2 < found.epsilon <= ALL[name].epsilon


def test_a_mechanism_that_tells_all_is_accused() -> None:
    def tells(stream: Stream) -> Hashable:
        return stream.batches

    loud = replace(ALL["HistogramBox"], run=tells, samples=400)
    assert loud.find().epsilon > loud.epsilon


def test_the_reach_is_what_the_best_evidence_gives() -> None:
    """A mechanism that tells all gives exactly that, and no mechanism more."""
    loud = replace(ALL["ATG"], run=lambda stream: stream.batches, samples=300)
    assert loud.find().epsilon == pytest.approx(loud.reach())
    assert loud.reach(3000) > loud.reach()


def test_attacks_are_chosen_by_name() -> None:
    listed = attacks()
    assert [attack.mechanism for attack in chosen(listed, ["pmwg", "ATG"])] == ["ATG", "PMWG"]
    assert chosen(listed, []) == listed
    with pytest.raises(ParameterError, match="mechanism must be one of ATG, .*, not 'Laplace'"):
        chosen(listed, ["Laplace"])


def test_the_pairs() -> None:
    left, right = arriving((0, 1), (2,))
    assert (left.batches, right.batches) == (((0, 1), (2,)), ((YES, 1), (2,)))
    assert worst(0, 0)[0].schema == SCHEMA
    assert isinstance(attacks()[0], Attack)
