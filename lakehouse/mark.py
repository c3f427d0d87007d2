"""The mark: what each of our commits says about itself, in the commit's own `userMetadata`.

It is the only place where a read position is kept (ADR 1), so it travels atomically with the rows.
Delta: PROTOCOL.md, "Commit Provenance Information".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

FIELD = "lakehouse"


@dataclass(frozen=True, slots=True)
class Position:
    """How far one source has been read.

    Args:
        table: The source's table id: another table at the same path is not the same source.
        version: The last version of it that is reflected in the target.
        lookup: True where the source was read as a plain `DataFrame`: a record, not a cursor.
    """

    table: str
    version: int
    lookup: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """One own commit of one asset.

    Args:
        asset: The asset key, its parts joined by "/".
        partitions: The partition keys that the commit wrote; empty where the asset has none.
        generation: The line of history that the epochs count in; a RESTORE or a lost mark begins another.
        epoch: The number of this commit in its generation, from 1.
        run: The Dagster run.
        attempt: This try at committing; never used twice.
        base: The target's version when the attempt was planned; -1 where there was no table.
        code_version: The asset's `code_version`.
        reads: Each source's position once this commit is in.
    """

    asset: str
    partitions: tuple[str, ...]
    generation: str
    epoch: int
    run: str
    attempt: str
    base: int
    code_version: str | None = None
    reads: Mapping[str, Position] = field(default_factory=dict[str, Position])

    @property
    def application_id(self) -> str:
        return application_id(self.asset, self.partitions, self.generation)

    def to_json(self) -> str:
        reads: dict[str, dict[str, Any]] = {
            source: {"table": at.table, "version": at.version} | ({"lookup": True} if at.lookup else {})
            for source, at in sorted(self.reads.items())
        }
        return json.dumps(
            {
                FIELD: {
                    "asset": self.asset,
                    "partition": _partition_to_json(self.partitions),
                    "generation": self.generation,
                    "epoch": self.epoch,
                    "run": self.run,
                    "attempt": self.attempt,
                    "base": self.base,
                    "code_version": self.code_version,
                    "reads": reads,
                }
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | None) -> "Mark | None":
        """The mark in a commit's `userMetadata`; None where that is somebody else's.

        Raises:
            ValueError: The text claims to be a mark but is damaged.
        """
        if not text or f'"{FIELD}"' not in text:
            return None
        try:
            outer = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"the mark is not JSON: {text[:120]!r}") from error
        if not isinstance(outer, dict) or not isinstance(cast("dict[str, Any]", outer).get(FIELD), dict):
            return None
        body = cast("dict[str, Any]", outer[FIELD])
        try:
            return cls(
                asset=str(body["asset"]),
                partitions=_partition_from_json(body.get("partition")),
                generation=str(body["generation"]),
                epoch=int(body["epoch"]),
                run=str(body["run"]),
                attempt=str(body["attempt"]),
                base=int(body["base"]),
                code_version=None if body.get("code_version") is None else str(body["code_version"]),
                reads={
                    str(source): Position(str(at["table"]), int(at["version"]), bool(at.get("lookup", False)))
                    for source, at in body["reads"].items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the mark lacks or garbles a field ({error}): {text[:120]!r}") from error


def application_id(asset: str, partitions: tuple[str, ...], generation: str) -> str:
    """Delta's `txnAppId` of an asset: one sequence of epochs per partition (or range of them) and generation."""
    match partitions:
        case ():
            slice_ = ""
        case (only,):
            slice_ = f"/{only}"
        case _:
            slice_ = f"/{partitions[0]}...{partitions[-1]}({len(partitions)})"
    return f"{asset}{slice_}:{generation}"


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
    return (value,) if isinstance(value, str) else tuple(str(key) for key in value)
