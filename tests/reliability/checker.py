"""Checks that every change was applied exactly once, from the tables' files alone.

It shares no code with the library: it parses the logs and the marks itself, reads the Parquet files with pyarrow,
and computes what a table must hold in plain Python. docs/reliability.md lists the rules.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.reliability.delta_files import Entry, History, Ledger, Row
from tests.reliability.laws import Law, Span, bag

Rule: TypeAlias = Literal["K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule, described in a sentence."""

    rule: Rule
    asset: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule} {self.asset}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Asset:
    """A table under test.

    Args:
        name: The asset, as its marks name it.
        path: Its directory.
        sources: The directories of its sources, by name.
        law: What it must hold.
        tokens: The column, in it and in its source, with a value of its own for each row version; None for none.
        extract: The number of the newest extract among the rows of its source; None unless it is kept from extracts.
    """

    name: str
    path: Path
    sources: Mapping[str, Path]
    law: Law
    tokens: str | None = None
    extract: Callable[[list[Row]], int] | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """What a run was told: its write is version `version` of the table, or another run's commit there covers it."""

    asset: str
    run: str
    version: int
    own: bool = True


@dataclass(frozen=True, slots=True)
class _Mark:
    generation: str
    epoch: int
    run: str
    base: int
    application_id: str
    reads: Mapping[str, tuple[str, int]]
    extract: str | None


@dataclass(frozen=True, slots=True)
class _Belief:
    """What is known of a table at a version: the mark that holds there, the version of its commit, and the rows."""

    mark: _Mark
    version: int
    rows: list[Row]


def check(
    assets: Iterable[Asset],
    acks: Iterable[Ack] = (),
    died: Iterable[str] = (),
    opened: Callable[[Path], History] = History,
) -> list[Violation]:
    """Every broken rule.

    Args:
        assets: The tables.
        acks: What the runs were told.
        died: The runs that were killed, and so were told nothing.
        opened: Gives the history of a directory; it may cache histories once nothing writes any more.
    """
    told, dead = list(acks), set(died)
    return [violation for asset in assets for violation in _Check(asset, told, dead, opened).run()]


def check_ledger(ledger: Ledger, *tables: Path) -> list[Violation]:
    """K6: log entries that have changed, or are gone, since they were first seen."""
    return [
        Violation("K6", file.parent.parent.name, f"log entry {int(file.stem)} {what} since it was first seen")
        for file, what in ledger.observe(*tables)
    ]


def behind(assets: Iterable[Asset], opened: Callable[[Path], History] = History) -> list[Violation]:
    """K8, for tables that were just brought up to date: changes of their sources after their positions."""
    return [violation for asset in assets for violation in _Check(asset, [], set(), opened).left_over()]


@dataclass
class _Check:
    asset: Asset
    acks: list[Ack]
    dead: set[str]
    opened: Callable[[Path], History]
    found: list[Violation] = field(default_factory=list[Violation])

    def left_over(self) -> list[Violation]:
        marks = [
            mark for entry in self.opened(self.asset.path).entries.values() if (mark := self._mark(entry)) is not None
        ]
        self.found.clear()
        for name, path in self.asset.sources.items():
            source, upto = self.opened(path), marks[-1].reads[name][1]
            if bag(source.rows(upto)) != bag(source.rows(source.newest)):
                self._say("K8", f"{name} has changes after version {upto} that no run found")
        return self.found

    def run(self) -> list[Violation]:
        target = self.opened(self.asset.path)
        sources = {name: self.opened(path) for name, path in self.asset.sources.items()}
        beliefs: dict[int, _Belief | None] = {}
        own: dict[int, _Mark] = {}
        expected = 0
        for version, entry in target.entries.items():
            if version != expected:
                self._say("K6", f"log entries {expected} to {version - 1} are missing")
            expected = version + 1
            before = beliefs.get(version - 1)
            mark = self._mark(entry)
            if mark is not None:
                own[version] = mark
                beliefs[version] = self._own(target, sources, version, mark, before)
            elif entry.restored is not None:
                beliefs[version] = beliefs.get(entry.restored)
            elif before is not None and bag(target.rows(version)) == bag(before.rows):
                beliefs[version] = before  # this includes a rival's UPDATE that writes the same values
            else:
                beliefs[version] = before if entry.keeps_rows else None
                if before is not None and entry.keeps_rows:
                    self._say("K3", f"version {version} ({entry.operation}) changed rows")
        self._epochs(own)
        self._tokens(target, sources, beliefs.get(target.newest))
        self._acks(own)
        return self.found

    def _own(
        self, target: History, sources: Mapping[str, History], version: int, mark: _Mark, before: _Belief | None
    ) -> _Belief | None:
        """Checks the rules of one own commit; what is known after it."""
        rolled_back = [v for v in range(mark.base + 1, version) if target.entries[v].operation == "RESTORE"]
        if rolled_back:  # planned before a RESTORE, committed after it: the rows that it claims need not be there
            return None
        previous = before.mark if before is not None else None
        if before is not None and mark.base < before.version and before.mark.generation == mark.generation:
            self._say(
                "K1",
                f"version {version} was planned on version {mark.base}, before own version {before.version}: both "
                f"read on from the same position, so their ranges overlap",
            )
        spans: dict[str, Span] = {}
        for name, (table, upto) in mark.reads.items():
            source = sources[name]
            after = self._after(version, name, (table, upto), mark, previous)
            self._known(version, name, source, table, upto)
            if upto in source.entries:
                spans[name] = Span(source, after, upto)
        self._extract(version, spans, mark)
        rows = target.rows(version)
        if len(spans) == len(mark.reads) and (
            problem := self.asset.law(before.rows if before is not None else None, spans, rows)
        ):
            self._say("K3", f"version {version}, which has read {_positions(mark)}: {problem}")
        return _Belief(mark, version, rows)

    def _extract(self, version: int, spans: Mapping[str, Span], mark: _Mark) -> None:
        """The version of the extract in the mark is the newest among the deliveries that were read (K5)."""
        if self.asset.extract is None:
            return
        for span in spans.values():
            newest = self.asset.extract(span.rows)
            if mark.extract != f"int {newest}":
                self._say("K5", f"version {version} says that it holds extract {mark.extract}, not int {newest}")

    def _after(self, version: int, name: str, at: tuple[str, int], mark: _Mark, previous: _Mark | None) -> int | None:
        """The start of the range of a source, which is the end of the previous own commit's range (K5)."""
        table, upto = at
        if previous is None or name not in previous.reads or previous.reads[name][0] != table:
            return None
        after = previous.reads[name][1]
        if upto < after and mark.generation == previous.generation:
            self._say("K5", f"version {version} has read {name} up to {upto}, and the commit before it up to {after}")
            return None
        return after

    def _known(self, version: int, name: str, source: History, table: str, upto: int) -> None:
        if upto > source.newest:
            self._say("K5", f"version {version} claims {name} up to {upto}, and its log ends at {source.newest}")
        elif upto in source.entries and source.entries[upto].table_id != table:
            self._say("K1", f"version {version} claims version {upto} of another table than {name} was then")

    def _mark(self, entry: Entry) -> _Mark | None:
        """The asset's mark in a commit (K2)."""
        try:
            body: dict[str, Any] = json.loads(entry.info.get("userMetadata") or "{}").get("lakehouse", {})
        except (json.JSONDecodeError, AttributeError):
            return None
        ours = [txn for txn in entry.txns if txn[0].startswith((f"{self.asset.name}:", f"{self.asset.name}/"))]
        if body.get("asset") != self.asset.name:
            if ours:
                self._say("K2", f"version {entry.version} has the transaction identifier {ours[0]} and no mark")
            return None
        partition = f"/{body['partition']}" if isinstance(body.get("partition"), str) else ""
        mark = _Mark(
            generation=body["generation"],
            epoch=body["epoch"],
            run=body["run"],
            base=body["base"],
            application_id=f"{self.asset.name}{partition}:{body['generation']}",
            reads={
                name: (at["table"], at["version"])
                for name, at in body["reads"].items()
                if not at.get("lookup") or name in self.asset.sources
            },
            extract=body.get("extract"),
        )
        if ours != [(mark.application_id, mark.epoch)]:
            self._say(
                "K2",
                f"version {entry.version} is epoch {mark.epoch} of {mark.application_id}, and its transaction "
                f"identifiers say {ours or 'nothing'}",
            )
        return mark

    def _epochs(self, own: Mapping[int, _Mark]) -> None:
        """K2: the epochs of a generation count 1, 2, 3, ..."""
        counted: dict[str, int] = {}
        for version, mark in own.items():
            if mark.epoch != counted.get(mark.application_id, 0) + 1:
                last = counted.get(mark.application_id, 0)
                self._say("K2", f"version {version} is epoch {mark.epoch} of {mark.application_id} after epoch {last}")
            counted[mark.application_id] = mark.epoch

    def _tokens(self, target: History, sources: Mapping[str, History], belief: _Belief | None) -> None:
        """K4: every token of the source up to the position is counted once."""
        column = self.asset.tokens
        if column is None or belief is None:
            return
        counted = Counter(row[column] for row in target.rows(target.newest))
        twice = sorted(token for token, times in counted.items() if times > 1)
        if twice:
            self._say("K4", f"{len(twice)} tokens are counted more than once: {', '.join(map(str, twice[:5]))}")
        name, source = next(iter(sources.items()))
        start = next(m for e in target.entries.values() if (m := self._quiet_mark(e)) is not None).reads[name][1]
        upto = belief.mark.reads[name][1]
        due = {row[column] for version in range(start, min(upto, source.newest) + 1) for row in source.rows(version)}
        lost, extra = sorted(due - set(counted)), sorted(set(counted) - due)
        if lost:
            self._say("K4", f"{len(lost)} tokens up to version {upto} of {name} are lost: {', '.join(lost[:5])}")
        if extra:
            self._say("K4", f"{len(extra)} tokens came from beyond version {upto} of {name}: {', '.join(extra[:5])}")

    def _quiet_mark(self, entry: Entry) -> _Mark | None:
        before = len(self.found)
        mark = self._mark(entry)
        del self.found[before:]
        return mark

    def _acks(self, own: Mapping[int, _Mark]) -> None:
        """K7: what runs were told is what the log shows, and each own commit belongs to a run."""
        acks = [ack for ack in self.acks if ack.asset == self.asset.name]
        for ack in acks:
            mark = own.get(ack.version)
            if mark is None or (ack.own and mark.run != ack.run):
                told = "it committed" if ack.own else "another run's commit covers it,"
                self._say("K7", f"run {ack.run} was told that {told} as version {ack.version}, which it is not")
        for version, times in Counter(ack.version for ack in acks if ack.own).items():
            if times > 1:
                self._say("K7", f"{times} runs were told that version {version} is theirs")
        if acks:
            told = {ack.version for ack in acks if ack.own}
            for version, mark in own.items():
                if version not in told and mark.run not in self.dead:
                    self._say("K7", f"version {version} of run {mark.run} was never acknowledged, and the run lived")

    def _say(self, rule: Rule, sentence: str) -> None:
        self.found.append(Violation(rule, self.asset.name, sentence))


def _positions(mark: _Mark) -> str:
    return ", ".join(f"{name} up to {version}" for name, (_, version) in sorted(mark.reads.items())) or "nothing"
