"""Lines, their chain, and the secrets that they promise: each by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

import treering as tr
from treering.trusted.ledger.lines import ROOT, Line, SecretValue, body, chained, check, link, opened, seal
from treering.trusted.sealed import commitment

FIRST = chained(ROOT, 1, 5, Line("rows", body(size=1), 2, "key", "aa"))
SECOND = chained(FIRST.hash, 2, 5, Line("event", body(a=[1.5, None])))


def test_a_line_in_its_chain_and_by_itself() -> None:
    assert bytes(32) == ROOT
    assert FIRST.line == Line("rows", '{"size":1}', 2, "key", "aa")
    assert (FIRST.seq, FIRST.time, FIRST.line.plain()) == (1, 5, {"size": 1})
    assert SECOND.line == Line("event", '{"a":[1.5,null]}', -1, "", "")
    assert FIRST.hash == link(ROOT, 1, 5, "rows", 2, '{"size":1}', "key", "aa")
    assert list(check([FIRST, SECOND])) == [FIRST, SECOND]
    assert list(check([])) == []


def damage(*entries: Any) -> str:
    with pytest.raises(tr.DamagedVault) as refusal:
        list(check(entries))
    return str(refusal.value)


@pytest.mark.parametrize("field", ["time", "kind", "mechanism", "body", "key", "commitment", "hash"])
@pytest.mark.parametrize("value", [None, 7, b"x", "x", 1.5])
def test_a_column_that_was_changed_is_found_whatever_its_type(field: str, value: Any) -> None:
    changed = FIRST._replace(**{field: value})
    said = damage(changed)
    assert said == "the ledger is damaged: line 1 is not what was written; restore a backup"


def test_lines_that_are_missing_or_older_than_the_one_before_are_found() -> None:
    missing = "the ledger is damaged: line {} is missing"
    assert damage(SECOND) == missing.format(1)
    assert damage(FIRST, FIRST) == missing.format(2)
    assert damage(FIRST, SECOND._replace(seq=3)) == missing.format(2)
    for previous, time in ((ROOT, 5), (FIRST.hash, 4)):
        wrong = chained(previous, 2, time, SECOND.line)
        assert damage(FIRST, wrong).startswith("the ledger is damaged: line 2 is not what was written")
    negative = chained(ROOT, 1, -1, FIRST.line)
    assert damage(negative).startswith("the ledger is damaged: line 1 is not what was written")


def test_what_was_checked_comes_before_the_damage() -> None:
    found = iter(check([FIRST, FIRST]))
    assert next(found) == FIRST
    with pytest.raises(tr.DamagedVault):
        next(found)


def test_a_secret_is_opened_only_if_it_is_the_one_promised() -> None:
    kept, promised = seal("noise", "42")
    assert (kept.name, kept.value, len(kept.salt)) == ("noise", "42", 32)
    assert promised == commitment(kept.salt, b"noise", b"42")
    assert seal("noise", "42")[1] != promised
    assert opened("noise", promised, {"noise": kept}) == "42"
    for secrets in (
        {},
        {"noise": SecretValue("noise", kept.salt, "43")},
        {"noise": SecretValue("noise", bytes(32), "42")},
        {"other": kept},
    ):
        refusal = re.escape("the secret 'noise' is missing, or not the one that was written; restore a backup")
        with pytest.raises(tr.DamagedVault, match=refusal):
            opened("noise", promised, secrets)
    with pytest.raises(tr.DamagedVault):
        opened("other", promised, {"other": kept})
