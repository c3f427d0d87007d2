"""The protocol of marks, epochs and meeting points as a small state machine, explored to its last state.

Tables `a` and `b` append the commits of `src`, and `m` appends what both appended. There are two writers, who may die
at any step, and a RESTORE of `a`. A table is modelled by how often it has each commit of `src`; `m` counts by input.
The code under test decides, over logs in memory, how far a run reads and which epoch it claims.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.cuts import agreement
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.delta.commit_info import Commit
from tests.support.commits import TABLE_ID, History

INPUTS = {"a": ("src",), "b": ("src",), "m": ("a", "b")}
EDITS, VERSIONS = 2, {"a": 3, "b": 2, "m": 2}
Counts = tuple[tuple[int, ...], ...]
"""How often a table has each commit of `src`, for each way that leads to it."""


class Version(NamedTuple):
    """A version of a table: its mark, or the version that a RESTORE brought back; and what the table holds."""

    mark: str | None
    restored: int | None
    holds: Counts
    is_sound: bool
    """Whether the table was not restored between the plan of the commit and the commit."""


class Plan(NamedTuple):
    """What a writer will commit: from where its inputs are read, up to where, and under which epoch."""

    table: str
    mark: str
    after: tuple[int, ...] | None
    upto: tuple[int, ...]


class State(NamedTuple):
    """Everything durable, and what the writers plan; `beside` are positions that are kept outside the commits."""

    head: int = 0
    tables: tuple[tuple[Version, ...], ...] = ((), (), ())
    writers: tuple[Plan | None, ...] = (None, None)
    restores: int = 0
    beside: tuple[tuple[int, ...] | None, ...] = (None, None, None)


NAMES = tuple(INPUTS)


@cache
def history(name: str, versions: tuple[Version, ...], restore: str = "RESTORE") -> History:
    log = History(name, properties={"lakehouse.asset": name})
    for version, each in enumerate(versions):
        if each.restored is not None:
            log.add(restore, {"version": str(each.restored)})
            continue
        mark = Mark.from_json(each.mark)
        assert mark is not None
        log.entries.append(Commit(version, version, "WRITE", {"mode": "Append"}, {"numOutputRows": 1}, each.mark))
        log.transactions[mark.application_id] = max(log.transactions.get(mark.application_id, 0), mark.epoch)
    return log


@cache
def source(head: int) -> History:
    log = History("src")
    for _ in range(head + 1):
        log.append()
    return log


@dataclass
class Machine:
    """The protocol.

    Args:
        mistake: What the protocol does wrong; empty for the right protocol.
    """

    mistake: str = ""
    _plans: dict[Any, Plan | None] = field(default_factory=dict)

    def log(self, state: State, name: str) -> History:
        if name == "src":
            return source(state.head)
        ignored = self.mistake == "RESTORE ignored"
        return history(name, state.tables[NAMES.index(name)], "OPTIMIZE" if ignored else "RESTORE")

    def standings(self, state: State) -> Standings:
        ways = Ways(INPUTS, frozenset(NAMES))
        if self.mistake == "siblings read to the head":
            ways.__dict__["groups"] = {}
        return Standings(ways, lambda name: self.log(state, name))

    def cursor(self, state: State, name: str) -> Cursor:
        log = self.log(state, name)
        return find_cursor(log, log.head(), name)

    def plan(self, state: State, name: str) -> Plan | None:
        """What a run that begins now would commit; None if it has nothing to do."""
        key = (name, state.head, state.tables, state.beside[NAMES.index(name)])
        if key not in self._plans:
            self._plans[key] = self._plan(state, name)
        return self._plans[key]

    def _plan(self, state: State, name: str) -> Plan | None:
        cursor, standings = self.cursor(state, name), self.standings(state)
        if any(standings.head(each) is None for each in INPUTS[name]):
            return None
        settled = agreement(standings, name, cursor, {})
        if settled.has_no_cut:
            return None
        if settled.newest is not None:
            upto = tuple(standings.head(each).version for each in INPUTS[name])  # pyright: ignore[reportOptionalMemberAccess]
        else:
            upto = tuple(settled.upto[each] for each in INPUTS[name])
        heads = tuple(standings.head(each).version for each in INPUTS[name])  # pyright: ignore[reportOptionalMemberAccess]
        if self.mistake == "cut by head only" and upto != heads and settled.newest is None and len(upto) > 1:
            return None
        reads = cursor.reads
        after = tuple(reads[each].version for each in INPUTS[name]) if isinstance(cursor, Known) and reads else None
        after = state.beside[NAMES.index(name)] if self.mistake == "position beside the commit" else after
        if after == upto:
            return None
        mark = Mark(
            name,
            (),
            cursor.generation,
            cursor.epoch + 1,
            "run",
            "attempt",
            len(state.tables[NAMES.index(name)]) - 1,
            reads={each: Position(TABLE_ID, version) for each, version in zip(INPUTS[name], upto, strict=True)},
        )
        return Plan(name, mark.to_json(), after, upto)

    def holds(self, state: State, name: str, version: int) -> tuple[int, ...]:
        """How often a version of an input has each commit of the source."""
        if name == "src":
            return tuple(int(commit <= version) for commit in range(EDITS + 5))
        (counts,) = state.tables[NAMES.index(name)][version].holds
        return counts

    def commit(self, state: State, writer: int) -> State:
        """The writer commits, unless Delta has seen its epoch."""
        plan = state.writers[writer]
        assert plan is not None
        at, mark = NAMES.index(plan.table), Mark.from_json(plan.mark)
        assert mark is not None
        versions = state.tables[at]
        free = state._replace(writers=tuple(None if i == writer else w for i, w in enumerate(state.writers)))
        marks = [Mark.from_json(version.mark) for version in versions if version.mark]
        epochs = [m.epoch for m in marks if m is not None and m.application_id == mark.application_id]
        if epochs and max(epochs) >= mark.epoch and self.mistake != "no epoch":
            return free
        now = versions[-1].holds if versions and plan.after is not None else None
        after = plan.after or (None,) * len(plan.upto)
        ways = list[tuple[int, ...]]()
        for way, (name, since, upto) in enumerate(zip(INPUTS[plan.table], after, plan.upto, strict=True)):
            new = self.holds(state, name, upto)
            old = self.holds(state, name, since) if since is not None else (0,) * len(new)
            base = now[way] if now is not None else (0,) * len(new)
            ways.append(tuple(b + n - o for b, n, o in zip(base, new, old, strict=True)))
        is_sound = not any(version.restored is not None for version in versions[mark.base + 1 :])
        tables = list(state.tables)
        tables[at] = (*versions, Version(plan.mark, None, tuple(ways), is_sound))
        return free._replace(tables=tuple(tables))

    def steps(self, state: State) -> Iterator[State]:
        """Everything that may happen next."""
        if state.head < EDITS:
            yield state._replace(head=state.head + 1)
        for writer, plan in enumerate(state.writers):
            if plan is None:
                for name in NAMES:
                    begun = self.plan(state, name) if len(state.tables[NAMES.index(name)]) < VERSIONS[name] else None
                    if begun is not None:
                        yield state._replace(
                            writers=tuple(begun if i == writer else w for i, w in enumerate(state.writers))
                        )
                if state.writers[writer + 1 :]:
                    break  # the writers are interchangeable
                continue
            committed = self.commit(state, writer)
            if self.mistake == "position beside the commit" and committed.tables != state.tables:
                yield committed  # it dies before it writes its position
                at = NAMES.index(plan.table)
                committed = committed._replace(
                    beside=tuple(plan.upto if i == at else b for i, b in enumerate(state.beside))
                )
            yield committed
            yield state._replace(writers=tuple(None if i == writer else w for i, w in enumerate(state.writers)))
        if state.restores == 0 and 1 < len(state.tables[0]) <= VERSIONS["a"]:
            for version in range(len(state.tables[0]) - 1):
                restored = Version(None, version, state.tables[0][version].holds, state.tables[0][version].is_sound)
                yield state._replace(tables=((*state.tables[0], restored), *state.tables[1:]), restores=1)

    def why_wrong(self, state: State) -> str | None:
        """Why a state is wrong: a lost or doubled change, or a torn read; None if it is right."""
        standings = self.standings(state)
        for name in NAMES:
            versions = state.tables[NAMES.index(name)]
            if not versions or not versions[-1].is_sound:
                continue
            mark = Mark.from_json(versions[-1].mark)
            standing = standings.newest(name) if mark is None else standings.through(name, mark.reads)
            if standing is None or standing.unknown is not None:
                continue
            if standing.torn:
                return f"{name} is torn"
            expected = self.holds(state, "src", standing.sources["src"])
            if any(way != expected for way in versions[-1].holds):
                return f"{name} holds {versions[-1].holds}, and stands for {standing.sources}"
        return None

    def run(self, state: State, name: str) -> State:
        """A run from its plan to its commit, while no other writer does anything."""
        plan = self.plan(state, name)
        return state if plan is None else self.commit(state._replace(writers=(plan, *state.writers[1:])), 0)

    def why_stuck(self, state: State) -> str | None:
        """Why tables get stuck: `m` when the source moves and each sibling runs, or any table when the source rests."""
        if any(not version.is_sound for versions in state.tables for version in versions):
            return None
        moved = state
        for name in ("a", "b") * (1 + state.restores):  # after a RESTORE the table first reads again what it had read
            moved = self.run(moved._replace(head=moved.head + 1), name)
        before, after = (self.standings(each).newest("m") for each in (state, self.run(moved, "m")))
        if after is None or (before is not None and before.exact and after.exact == before.exact):
            return "the meeting table does not advance"
        for _ in range(3):
            for name in NAMES:
                moved = self.run(moved, name)
        at = {name: self.standings(moved).newest(name) for name in NAMES}
        if any(each is None or each.exact != {"src": moved.head} for each in at.values()):
            return f"at rest, at {moved.head}: {at}"
        return None


def explore(machine: Machine) -> tuple[int, str | None]:
    """How many states were visited, and why the first wrong state is wrong; None if none is."""
    seen, ahead, judged = {State()}, [State()], set[State]()
    while ahead:
        state = ahead.pop()
        at_rest = state._replace(writers=(None, None))
        if at_rest not in judged:
            judged.add(at_rest)
            why = machine.why_wrong(at_rest) or machine.why_stuck(at_rest)
            if why is not None:
                return len(seen), why
        for following in machine.steps(state):
            if following not in seen:
                seen.add(following)
                ahead.append(following)
    return len(seen), None
