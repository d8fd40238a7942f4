"""The attacks of `treering audit` keep to what they claim, and every one of them can accuse.

*False alarms.* Each attack on a right mechanism fails with probability 1e-7 (its `CONFIDENCE`), 13 of them; they run in
`treering audit`, and two of them in tests/unit/audit. *Power.* Here every mechanism is tampered with, nearly all of its
noise taken away or twenty times its budget spent, and its attack must accuse it. Then the two sides differ in almost
every run, so a miss has a probability far below 1e-8.
"""

from __future__ import annotations

import pytest

from support.pmwg_cases import make_runs_cheap
from treering.audit import attacks as attacks_all
from treering.audit.attacks import Attack, attacks

QUIET = 1 / 256
ALL = {attack.mechanism: attack for attack in attacks()}
SPENDING = {"MWEM": lambda: attacks_all.mwem(50.0), "SmallDB": lambda: attacks_all.small_db(40.0)}
SPENDING["ERM"] = lambda: attacks_all.erm(60.0)


@pytest.mark.parametrize("name", sorted(ALL))
def test_no_attack_claims_more_than_its_samples_could_prove(name: str) -> None:
    assert ALL[name].reach() > ALL[name].epsilon


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_mechanism_without_its_noise_is_accused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_runs_cheap(monkeypatch, QUIET)
    attack: Attack = SPENDING[name]() if name in SPENDING else ALL[name]
    assert attack.find().epsilon > attack.epsilon
