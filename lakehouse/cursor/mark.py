"""The mark: what each own commit says of itself, in its `userMetadata`.

It is the only place where a read position is kept (ADR 1), so it travels atomically with the rows.
Delta: PROTOCOL.md, "Commit Provenance Information".
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self, cast

from lakehouse.cursor.digests import Code, QueryDigest
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.generation import Generation, application_id
from lakehouse.delta.commit_info import COMPACTING, Commit, Rows
from lakehouse.delta.log import NO_TABLE

FIELD = "lakehouse"
FORMAT = 2
"""The format of new marks. Format 1 had no definition. A mark of a later format never counts as no mark."""
_CLAIM = re.compile(rf'\s*\{{\s*"{FIELD}"\s*:')


class NewerFormatError(ValueError):
    """A mark of a format that this version of the library does not know."""

    def __init__(self, number: int, asset: str) -> None:
        self.number, self.asset = number, asset
        super().__init__(f"the mark of '{asset}' is of format {number}")


@dataclass(frozen=True, slots=True)
class Position:
    """How far one source has been read.

    Args:
        table: The source's table id: another table at the same path is not the same source.
        version: The last version of it that is reflected in the target.
        is_snapshot: Whether the source was a snapshot input (`DataFrame`): then this is a record, not a position from
            which to read on. The mark calls it `lookup`, the word of format 1.
        mapped: Which partitions of the source were read, as a digest of their windows or values; None if all were
            read. (In format 1 also None if they were the partitions that the commit wrote.)
        time: When that version was committed, as a history counts (`lakehouse.read.content`), in milliseconds since
            the epoch; None unless the asset keeps a history.
        commit: The digest of that version's commit, which a source restored from a backup no longer has; None if it
            was not read.
    """

    table: str
    version: int
    is_snapshot: bool = False
    mapped: str | None = None
    time: int | None = None
    commit: str | None = None

    def is_of_same_rows(self, other: Self) -> bool:
        """Whether both are about the same rows of the same table, whatever the version."""
        return (self.table, self.mapped) == (other.table, other.mapped)


@dataclass(frozen=True, slots=True)
class Mark:
    """One own commit of one asset.

    Args:
        asset: The asset key, its parts joined by "/".
        partitions: The partition keys that the commit wrote; empty if the asset has none.
        generation: The line of history in which the epochs count. A RESTORE, or a commit that emptied or replaced the
            table, begins another.
        epoch: The number of this commit in its generation, from 1.
        run: The Dagster run.
        attempt: The id of this try at committing; never used twice.
        base: The target's version when the attempt was planned; -1 if there was no table.
        code_version: The asset's `code_version`.
        query: The query of a `View`; None for any other write, and in a mark of an earlier version.
        code: The code of its function; None if a `code_version` stands for it, if it cannot be read, and in a mark of
            an earlier version.
        reads: Each source's position once this commit is in.
        compared: Whether the rows follow from a comparison with the table at `base`, so that a rival's commit between
            `base` and this one may have undone it in part.
        key: The key columns that are unique after this commit for the touched keys; empty if there is no key.
        aggregate: The digest of the `Aggregate` whose sums the table holds; None if it holds none.
        everything: Whether that comparison was of everything, and not of what had changed since a position. In the mark
            of a quarantine: whether the commit set all of it, and not the rows of touched keys.
        log_after: The version of its source after which the table holds every change, unedited, as `Changes.log()`
            gives it; None if the table is not such an archive.
        definition: What decided which rows the commit is about (`lakehouse.cursor.definition`); None in a mark of
            format 1.
        decided: What a run tag decided; None if no tag did.
        extract: The version of the newest extract that the table holds; None unless it is kept from extracts.
        scope: The digest of the scope of the extract that the commit took; None if that has too many values.
        columns: The digest of the columns of the result of a `Merge`; None for any other write.
        rows: How many rows the commit inserted, updated and deleted; None if Delta counts them itself. Delta does not
            where rows replace others: it counts each update as one row deleted and one inserted.
        beside: In the mark of a table, the version of the quarantine that goes with the commit. In the mark of a
            quarantine, the version of the table that its run had found. None if there is no quarantine.
        quarantine: The table id of the quarantine that goes with the commit; None if there is none, and in a mark of an
            earlier version.
        lost_to: For each attempt that the run lost before, the version of the rival's commit; the newest, if several.
        owned: Which rows the run might rewrite (`Owned.texts`); None if it might rewrite all.
    """

    asset: str
    partitions: tuple[str, ...]
    generation: Generation
    epoch: int
    run: str
    attempt: str
    base: int
    code_version: str | None = None
    reads: Mapping[str, Position] = field(default_factory=dict[str, Position])
    compared: bool = False
    key: tuple[str, ...] = ()
    aggregate: str | None = None
    everything: bool = False
    log_after: int | None = None
    definition: Mapping[str, str] | None = None
    decided: str | None = None
    extract: ExtractVersion | None = None
    scope: str | None = None
    columns: str | None = None
    query: QueryDigest | None = None
    code: Code | None = None
    rows: Rows | None = None
    beside: int | None = None
    quarantine: str | None = None
    lost_to: tuple[int, ...] = ()
    owned: Mapping[str, str] | None = None

    @property
    def application_id(self) -> str:
        return application_id(self.asset, self.partitions, self.generation)

    @property
    def version_of_quarantine(self) -> int:
        """The version of the quarantine that goes with the commit of a table; `NO_TABLE` if none does."""
        return NO_TABLE if self.beside is None else self.beside

    def covers(self, partitions: Collection[str]) -> bool:
        """Whether its positions hold for the given partitions (none: for the whole table)."""
        return not self.partitions or (bool(partitions) and set(partitions) <= set(self.partitions))

    def meets(self, partitions: Collection[str]) -> bool:
        """Whether its commit may have written rows of the given partitions (none: of the whole table)."""
        return not self.partitions or not partitions or not set(self.partitions).isdisjoint(partitions)

    def to_json(self) -> str:
        rows, code = self.rows, self.code
        reads: dict[str, dict[str, Any]] = {
            source: {"table": at.table, "version": at.version}
            | _given(lookup=at.is_snapshot or None, mapped=at.mapped, time=at.time, commit=at.commit)
            for source, at in sorted(self.reads.items())
        }
        return json.dumps(
            {
                FIELD: ({} if self.definition is None else {"format": FORMAT})
                | {
                    "asset": self.asset,
                    "partition": _partition_to_json(self.partitions),
                    "generation": str(self.generation),
                    "epoch": self.epoch,
                    "run": self.run,
                    "attempt": self.attempt,
                    "base": self.base,
                    "code_version": self.code_version,
                    "reads": reads,
                }
                | _given(
                    compared=self.compared or None,
                    key=list(self.key) or None,
                    aggregate=self.aggregate,
                    everything=self.everything or None,
                    log_after=self.log_after,
                    definition=None if self.definition is None else dict(sorted(self.definition.items())),
                    decided=self.decided,
                    extract=self.extract and self.extract.text,
                    scope=self.scope,
                    columns=self.columns,
                    query=self.query and _query_to_json(self.query),
                    code=code and {"kind": code.kind, "digest": code.digest, "parts": dict(code.parts)},
                    rows=rows and [rows.inserted, rows.updated, rows.deleted],
                    beside=self.beside,
                    quarantine=self.quarantine,
                    lost_to=list(self.lost_to) or None,
                    owned=self.owned and dict(self.owned),
                )
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | None) -> "Mark | None":
        """The mark in a commit's `userMetadata`; None if the text is not a mark.

        Only a text that begins like a mark claims to be one; a text of another program may contain the word.

        Raises:
            NewerFormatError: The mark is of a later format.
            ValueError: The text claims to be a mark but is damaged.
        """
        if text is None or not _CLAIM.match(text):
            return None
        try:
            body = json.loads(text)[FIELD]
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"the mark is not JSON: {text[:120]!r}") from error
        if not isinstance(body, dict):
            return None
        body = cast("dict[str, Any]", body)
        try:
            if _number(body.get("format", 1)) > FORMAT:
                raise NewerFormatError(body["format"], _text(body["asset"]))
            return cls(
                asset=_text(body["asset"]),
                partitions=_partition_from_json(body["partition"]),
                generation=Generation.parse(_text(body["generation"])),
                epoch=_number(body["epoch"]),
                run=_text(body["run"]),
                attempt=_text(body["attempt"]),
                base=_number(body["base"]),
                code_version=None if body["code_version"] is None else _text(body["code_version"]),
                reads={
                    source: Position(
                        _text(at["table"]),
                        _number(at["version"]),
                        at.get("lookup", False) is True,
                        None if at.get("mapped") is None else _text(at["mapped"]),
                        None if at.get("time") is None else _number(at["time"]),
                        None if at.get("commit") is None else _text(at["commit"]),
                    )
                    for source, at in body["reads"].items()
                },
                compared=body.get("compared", False) is True,
                key=_texts(body.get("key", [])),
                aggregate=None if body.get("aggregate") is None else _text(body["aggregate"]),
                everything=body.get("everything", False) is True,
                log_after=None if body.get("log_after") is None else _number(body["log_after"]),
                definition=None if body.get("definition") is None else _texts_by_name(body["definition"]),
                decided=None if body.get("decided") is None else _text(body["decided"]),
                extract=None if body.get("extract") is None else ExtractVersion.parse(_text(body["extract"])),
                scope=None if body.get("scope") is None else _text(body["scope"]),
                columns=None if body.get("columns") is None else _text(body["columns"]),
                query=None if body.get("query") is None else _query_from_json(body["query"]),
                code=None if body.get("code") is None else _code_from_json(body["code"]),
                rows=None if body.get("rows") is None else Rows(*map(_number, body["rows"])),
                beside=None if body.get("beside") is None else _number(body["beside"]),
                quarantine=None if body.get("quarantine") is None else _text(body["quarantine"]),
                lost_to=tuple(_number(version) for version in body.get("lost_to", [])),
                owned=None if body.get("owned") is None else _texts_by_name(body["owned"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the mark lacks or garbles a field ({error}): {text[:120]!r}") from error


@lru_cache(maxsize=4_096)
def parse(text: str | None) -> Mark | None:
    """`Mark.from_json`, once for each text: walks ask for the same marks, once for each partition and attempt."""
    return Mark.from_json(text)


def repeats_metadata(commit: Commit) -> bool:
    """Whether a commit may have the `userMetadata` of another one, and so a mark that is not about it.

    A session may give its own to each of its commits, even a RESTORE, and Delta compacts files in a run's session.
    """
    return commit.operation == "RESTORE" or commit.operation in COMPACTING


def mark_in(commit: Commit) -> Mark | None:
    """The own mark of a commit, of whichever asset; None also if the mark is damaged or of a later format."""
    if repeats_metadata(commit):
        return None
    try:
        return parse(commit.user_metadata)
    except ValueError:
        return None


def rows_of(commit: Commit) -> Rows:
    """What a commit did to rows: by its mark if the mark records it, else by Delta's own counts."""
    mark = mark_in(commit)
    return commit.rows if mark is None or mark.rows is None or commit.is_quiet else mark.rows


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _partition_to_json(partitions: tuple[str, ...]) -> None | str | list[str]:
    match partitions:
        case ():
            return None
        case (only,):
            return only
        case _:
            return list(partitions)


def _partition_from_json(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list) and len(cast("list[Any]", value)) > 1:
        return tuple(_text(key) for key in cast("list[Any]", value))
    return (_text(value),)


def _code_from_json(body: Any) -> Code:
    return Code(_text(body["kind"]), _text(body["digest"]), _texts_by_name(body["parts"]))


def _query_to_json(query: QueryDigest) -> dict[str, str]:
    names = {} if query.names is None else {"names": query.names, "kind": query.kind}
    columns = {} if query.columns is None else {"columns": query.columns}
    return {"text": query.text} | names | columns


def _query_from_json(body: Any) -> QueryDigest:
    if isinstance(body, list):  # written for some days: the text, and names in an unknown format
        return QueryDigest(_text(next(iter(_texts(body)), None)))
    names, columns = (None if body.get(part) is None else _text(body[part]) for part in ("names", "columns"))
    return QueryDigest(_text(body["text"]), names, _text(body.get("kind", "")), columns)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return tuple(_text(item) for item in cast("list[Any]", value))


def _texts_by_name(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not a mapping")
    return {_text(name): _text(text) for name, text in cast("dict[Any, Any]", value).items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value
