"""Lives of a vault in which every session ends by SIGKILL: what was released, and what must be there afterwards.

A session runs in a forked child, which says what it releases through a pipe before it goes on: what has arrived is
released. The child kills itself at a named step of the protocol, or is killed at a moment of chance.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import treering as tr
from support.charges import most_paid
from support.events import decode, history
from support.parts import often
from support.vaults import BETA, DELTA, SCHEMA, frame, journal, mechanism, questions
from treering.boxes import histogram
from treering.theory.static import histogram_radius
from treering.trusted.ledger.disk import Stage, observe
from treering.trusted.ledger.folder import Folder
from treering.trusted.ledger.ledger import reading, rows_of
from treering.trusted.ledger.lines import Entry, check
from treering.trusted.ledger.record import Record
from treering.trusted.rows.intake import PERSON
from treering.trusted.rows.kept import Rows
from treering.vault import members
from treering.vault.members import shown
from treering.vault.vault import Vault

EPSILON: Final = 20_000.0
WIDE: Final = tr.Schema({name: tr.integers(1, 32) for name in ("a", "b", "c", "d")})
_PIPE: Final = 2**20
ASKED: Final = ("pmwg", "measured", "rings", "continual", "scheduler", "improver")


def create(place: Path) -> None:
    """A vault with one mechanism of each kind, and persons with a limit, so that a batch has two files."""
    with Vault.create(place, SCHEMA, EPSILON, DELTA, mechanism=None, rows_per_person=3, person="who") as vault:
        vault.add("pmwg", 0.4, alpha=0.1, beta=BETA, measure_first=False)
        vault.add("pmwg", 0.1, alpha=0.1, beta=BETA, name="measured")
        vault.add("rings", 0.05)
        vault.add("continual", 0.1)
        vault.add("scheduler", 0.1)
        vault.add("improver", 0.1)
        vault.add("ermg", 0.1, target="late = 'yes'", features=["origin", "month"])
        vault.append(batch(20_000, 1))
        for name in ASKED:
            vault.ask_many(questions(3), name)
        vault.model()


def warm(place: Path) -> None:
    """Load and compute, in this process, what its children would each load and compute again."""
    vars(histogram)["histogram_radius"] = cache(histogram_radius)
    create(place)
    seldom, usual = members._REPLAYED, often()
    live(place, Session(seed=0), lambda *_, **__: None)
    vars(members)["_REPLAYED"] = seldom
    usual()
    Witness(place).check([])


def create_wide(place: Path) -> None:
    """A vault of 2^20 cells."""
    with Vault.create(place, WIDE, EPSILON, DELTA, mechanism=None, rows_per_person=3, person="who") as vault:
        vault.add("pmwg", 0.5, alpha=0.1, beta=BETA, measure_first=False)
        vault.add("pmwg", 0.5, alpha=0.1, beta=BETA, name="measured")
        vault.append(batch(20_000, 1, WIDE))
        for name in ("pmwg", "measured"):
            vault.ask_many(questions(3, 0, WIDE), name)


def batch(rows: int, seed: int, schema: tr.Schema = SCHEMA) -> pa.Table:
    """Rows of persons whom nobody has seen before."""
    return frame(rows, seed, schema).append_column("who", [[f"{seed}-{row // 3}" for row in range(rows)]])


# -- the child ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """How a session goes, and ends."""

    seed: int
    step: Stage | None = None
    """Where it kills itself, at the ``arrival``-th time; without one it is killed after ``seconds``."""
    arrival: int = 1
    seconds: float = 0.0
    operations: int = 40


def facts(vault: Vault) -> dict[str, Any]:
    """Public facts that must not be lost."""
    pending, run = journal(vault)._pending, mechanism(vault).state[0].run
    return {
        "size": vault.size,
        "spent": [each.mechanism.spent for each in vault._members],
        "asked": mechanism(vault).state[0].asked,
        "pending": 0 if pending is None else pending.asked,
        "run": None if run is None else run.handle,
        "head": vault._store._ledger.head.hex(),
        "states": states(vault),
        "names": [each.spec.name for each in vault._members],
    }


def states(vault: Vault) -> list[str]:
    """The public state of every mechanism; without the count of queries, which a crash may round up."""
    found: list[str] = []
    for each in vault._members:
        state: Any = each.mechanism.state
        kept = (state[0].hard, state[0].runs, state[0].potential, state[1]) if each.spec.kind == "pmwg" else state
        found.append(repr(kept))
    return found


def live(place: Path, session: Session, say: Callable[..., None]) -> None:
    vars(members)["_REPLAYED"] = 40 * members._EVENT
    often(sealed=2, merged=2, large=2000)
    generator = np.random.default_rng(session.seed)
    for part in range(2):
        vault = Vault.open(place)
        say("open", facts=facts(vault))
        for number in range(session.operations // 2):
            operate(vault, generator, f"{session.seed}.{part}.{number}", say)
        vault.close()
        say("closed", facts={})


def live_wide(place: Path, session: Session, say: Callable[..., None]) -> None:
    """Questions to the two PMWGs of a wide vault, and rows now and then; checkpoints when they are due."""
    vault = Vault.open(place)
    say("open", facts=facts(vault))
    generator = np.random.default_rng(session.seed)
    for number in range(session.operations):
        seed, name = int(generator.integers(2**31)), str(generator.choice(["pmwg", "measured"]))
        given: dict[str, Any] = {"work": "ask", "seed": seed, "key": None, "mechanism": name, "count": 20}
        if number % 10 == 9:
            given = {"work": "append", "seed": seed, "key": f"{session.seed}.{number}", "rows": 500}
        say("begin", **given)
        say("end", result=perform(vault, given), facts=facts(vault), **given)


def operate(vault: Vault, generator: np.random.Generator, name: str, say: Callable[..., None]) -> None:
    """One operation: said before it begins, and again when its result is released."""
    work = str(generator.choice(["append", "ask", "one", "model", "add"], p=[0.25, 0.5, 0.19, 0.05, 0.01]))
    seed, key = int(generator.integers(2**31)), name if generator.random() < 0.5 else None
    given: dict[str, Any] = {"work": work, "seed": seed, "key": key}
    if work == "append":
        given["rows"] = int(generator.integers(1, 3000))
    elif work in ("ask", "one"):
        given["mechanism"] = str(generator.choice(ASKED, p=[0.35, 0.25, 0.15, 0.1, 0.075, 0.075]))
        given["count"] = 1 if work == "one" else int(generator.integers(1, 30))
    say("begin", **given)
    say("end", result=perform(vault, given), facts=facts(vault), **given)


def perform(vault: Vault, given: dict[str, Any]) -> Any:
    """Do it (again)."""
    work, seed, key = given["work"], given["seed"], given["key"]
    if work == "append":
        return vault.append(batch(given["rows"], seed, vault.schema), key=key)
    if work == "model":
        return list(vault.model().theta)
    if work == "add":
        return vault.add("continual", 0.0001, name=f"extra{seed}")
    asked = questions(given["count"], seed, vault.schema)
    answers = vault.ask_many(asked, given["mechanism"], key)
    return [[answer.value, answer.error, answer.size, answer.kind] for answer in answers]


def _assassin(session: Session) -> Callable[[Stage], None]:
    arrivals = 0

    def watch(step: Stage) -> None:
        nonlocal arrivals
        arrivals += step is session.step
        if step is session.step and arrivals == session.arrival:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


def run(session: Session, life: Callable[[Path, Session, Callable[..., None]], None], place: Path) -> list[Any]:
    """One session in a forked child, until it is killed: all that it said."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    child = os.fork()
    if child == 0:

        def say(what: str, **given: Any) -> None:
            os.write(writing, json.dumps([what, given]).encode() + b"\n")

        try:
            os.close(reading)
            observe(_assassin(session))
            life(place, session, say)
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:
            say("error", text=traceback.format_exc())
        finally:
            os._exit(3)
    os.close(writing)
    said = _heard(reading, child, time.monotonic() + session.seconds if session.step is None else None)
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = [json.loads(line) for line in said.split(b"\n")[:-1]]
    assert status == -signal.SIGKILL, lines[-1:]
    return lines


def _heard(pipe: int, child: int, until: float | None) -> bytes:
    said = b""
    while True:
        wait = None if until is None else max(0.0, until - time.monotonic())
        if select.select([pipe], [], [], wait)[0]:
            piece = os.read(pipe, _PIPE)
            if not piece:
                return said
            said += piece
        else:
            os.kill(child, signal.SIGKILL)
            until = None


# -- what must be there afterwards -------------------------------------------------------------------------------------


@dataclass
class Witness:
    """Knows what was released over all sessions of a life, and checks a vault against it."""

    place: Path
    facts: dict[str, Any] = field(default_factory=dict)
    """The last that were said, or found."""
    slowest: float = 0.0
    kinds: set[str] = field(default_factory=set)
    """The kinds of answers and lines seen."""

    def check(self, said: list[Any]) -> None:
        """After a kill: open the vault, as the next writer would, and look for everything that was released."""
        left = list(Vault.read(self.place).ledger())
        begun = time.perf_counter()
        with Vault.open(self.place, wait=0) as vault:
            self.slowest = max(self.slowest, time.perf_counter() - begun)
            ended = [given for what, given in said if what == "end"]
            flying = said[-1][1] if said and said[-1][0] == "begin" else None
            lines = list(vault.ledger())
            self._check_facts(vault, said, flying, {line["hash"] for line in lines})
            self._check_lease(vault, said, left)
            self._check_files(vault)
            self._check_released(vault.schema, lines, ended)
            self._check_replay(vault, lines)
            self._check_retries(vault, ended, flying)
            self.facts = facts(vault)
            self.kinds |= {
                *(line["kind"] for line in lines),
                *(each[3] for given in ended if "count" in given for each in given["result"]),
            }

    def _check_facts(self, vault: Vault, said: list[Any], flying: dict[str, Any] | None, heads: set[str]) -> None:
        now = facts(vault)
        known = [given["facts"] for _, given in said if given.get("facts")] or [self.facts]
        before = known[-1] or now
        for each in [self.facts, *known]:
            if each:
                assert now["size"] >= each["size"]
                assert all(one >= other for one, other in zip(now["spent"], each["spent"], strict=False)), "lost charge"
                assert now["names"][: len(each["names"])] == each["names"]
                assert now["asked"] >= each["asked"], "a query was forgotten"
                assert each["head"] in heads, "the ledger was set back"
        more = flying["count"] if flying and flying.get("mechanism") == "pmwg" else 0
        lease = max(1024, 2 * (before["pending"] + more))
        assert now["asked"] <= before["asked"] + more + lease
        rows = flying["rows"] if flying and flying["work"] == "append" else 0
        assert now["size"] - before["size"] in {0, rows}, "a batch is neither whole nor absent"
        if now["head"] == before["head"]:
            assert now["states"] == before["states"]
        for number, (one, other) in enumerate(zip(now["states"], before["states"], strict=False)):
            if before["names"][number] in ("scheduler", "improver"):
                assert one.startswith(other[:-1].rstrip(",")), "an epoch was lost"

    def _check_lease(self, vault: Vault, said: list[Any], left: list[dict[str, Any]]) -> None:
        """A kill may have shown a crossing: a run goes on only if the lines ``left`` by the session that was killed
        give its lease back."""
        before = ([given["facts"] for _, given in said if given.get("facts")] or [self.facts])[-1]
        if before and before["pending"] and facts(vault)["run"] == before["run"]:
            place = next(place for place, line in enumerate(left) if line["hash"] == before["head"])
            since = {line["kind"] for line in left[place + 1 :] if line["mechanism"] == "pmwg"}
            assert since & {"Compared", "checkpoint"}, "a run goes on whose lease was not given back"

    def _check_files(self, vault: Vault) -> None:
        """Every row is on the disk once, and all that is counted is counted from these."""
        found = {file.name for file in (self.place / "parts").iterdir()}
        assert found == vault._store._record.parts.names
        kept = {file.name for file in (self.place / "checkpoints").iterdir()}
        assert kept <= vault._store._checkpoints.named
        secrets = {name for name in vault._store._ledger.secrets() if name.startswith("part")}
        assert secrets == {part.secret for part in vault._store._record.parts}
        rows = pa.concat_tables(vault._store._parts.stored().tables())
        assert (
            sum(pq.read_metadata(self.place / "parts" / name).num_rows for name in found)
            == vault._store._record.parts.rows
        )
        assert rows.num_rows == vault.size == sum(batch.rows for batch in vault._store._record.batches)
        assert max(rows.column(PERSON).value_counts().field("counts").to_pylist()) <= 3
        recounted = Rows(vault.schema)
        recounted.add(rows)
        every = tuple(range(len(vault.schema.shape)))
        same = recounted.cells.marginal(every) == vault._store._rows.cells.marginal(every)
        assert same.all(), "other counts than the parts"

    def _check_released(self, schema: tr.Schema, lines: list[dict[str, Any]], ended: list[dict[str, Any]]) -> None:
        """Every answer that was paid for is in the ledger: its query's own value."""
        recorded = list(_recorded(schema, lines))
        for given in ended:
            if given.get("mechanism") not in ("pmwg", "measured"):
                continue
            for query, (value, _, size, kind) in zip(
                questions(given["count"], given["seed"], schema), given["result"], strict=True
            ):
                if kind in ("hard", "measured"):
                    known = [each for each in recorded if each[1] == query]
                    assert (kind, query, size, value) in known, f"a released answer was lost: {kind} {size} {value}"

    def _check_replay(self, vault: Vault, lines: list[dict[str, Any]]) -> None:
        """From checkpoints, from the first line, or live: one state."""
        found = vault.verify(self.facts.get("head"))
        assert found["spent"] == vault.spent
        assert found["size"] == vault.size
        record = Record.of(read_entries(self.place), Folder(self.place))
        whole = shown(record, [history(entries, vault.schema) for entries in record.lines])
        assert [each.state for each in whole] == [each.mechanism.state for each in vault._members]
        names = [each.spec.name for each in vault._members]
        costs = sum(most_paid([line for line in lines if line["mechanism"] == name]) for name in names)
        assert abs(costs - vault.spent) <= 1e-9 * vault.spent
        for number, each in enumerate(vault._members):
            if each.spec.kind == "pmwg":
                run = mechanism(vault, number).state[0].run
                assert list(mechanism(vault, number)._gate._desk.charges.runs) == ([] if run is None else [run.handle])

    def _check_retries(self, vault: Vault, ended: list[dict[str, Any]], flying: dict[str, Any] | None) -> None:
        """With its key, what was released comes again, for nothing; what was cut off happens once."""
        before = facts(vault)
        for given in ended:
            if given["key"] and given["work"] in ("append", "ask", "one"):
                assert perform(vault, given) == given["result"]
        assert facts(vault) == before, "a retry was charged"
        if flying and flying["key"] and flying["work"] in ("append", "ask", "one"):
            first = perform(vault, flying)
            after = facts(vault)
            assert perform(vault, flying) == first
            assert facts(vault) == after
            if flying["work"] == "append":
                assert first == vault.size
                assert vault.size - before["size"] in {0, flying["rows"]}


def read_entries(place: Path) -> list[Entry]:
    """The ledger as it is on disk."""
    with reading(place / "ledger.sqlite") as connection:
        return list(check(rows_of(connection)))


def _recorded(schema: tr.Schema, lines: list[dict[str, Any]]) -> Iterator[tuple[str, tr.Query, int, float]]:
    """The values in the ledger that answers can have been: kind, query, size, share."""
    size = 0
    for line in lines:
        if line["kind"] in ("Measured", "Kept", "Corrected", "Grown"):
            event: Any = decode(json.dumps(line["body"]), schema)
            if line["kind"] == "Measured":
                share = event.values[0] / (event.queries[0].scale * event.size)
                yield "measured", event.queries[0], event.size, min(1.0, max(0.0, share))
            elif line["kind"] in ("Kept", "Corrected"):
                note = event.note
                query = note.query if line["kind"] == "Kept" else note.step.query
                yield "hard", query, size, min(1.0, max(0.0, note.share))
            elif line["mechanism"] == "pmwg":
                size = event.note.size
