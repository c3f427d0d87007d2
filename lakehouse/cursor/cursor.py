"""What a table records of how far its asset has read: a position, none yet, or one that is lost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakehouse.cursor.generation import FIRST_GENERATION, Generation
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.log import NOTHING_READ


@dataclass(frozen=True, slots=True)
class Known:
    """The table records how far it has read.

    Args:
        mark: The mark of the newest own commit that still holds.
        version: The version of that commit.
        generation: The generation that the next commit counts in.
        epoch: The last epoch of that generation.
        reads: The position of every source from which the next run continues.
        stale_base: Whether a rival changed rows between the comparison of that commit and the commit itself, so that
            the next run reads once more what that run has read.
        may_be_empty: For the cursor of a partition: whether somebody else has deleted rows since.
    """

    mark: Mark
    version: int
    generation: Generation
    epoch: int
    reads: Mapping[str, Position]
    stale_base: bool = False
    may_be_empty: bool = False

    @classmethod
    def of(cls, mark: Mark, version: int) -> "Known":
        """The cursor that the commit itself states."""
        return cls(mark, version, mark.generation, mark.epoch, mark.reads)

    def furthest(self, source: str) -> int:
        """How far rows of the table may reflect a source: further than its position if the base was stale."""
        read = self.mark.reads if self.stale_base else self.reads
        return read[source].version if source in read else NOTHING_READ

    @property
    def must_be_compared_again(self) -> bool:
        """Whether the base of a reconciliation was stale: the keys that the rival changed may be in no range.

        A partition is not compared again, because the rival may be a writer that always writes other partitions.
        """
        return self.stale_base and self.mark.everything and not self.mark.partitions

    def again(self, run: str, attempt: str, base: int) -> Mark:
        """The mark with which the position is committed again, as the next of the writer's own commits.

        Delta refuses one of the two if a run of the asset commits at the same time, because both have the next epoch.
        """
        return replace(
            self.mark,
            generation=self.generation,
            epoch=self.epoch + 1,
            run=run,
            attempt=attempt,
            base=base,
            reads=self.reads,
            compared=False,
            everything=False,
            decided=None,
            rows=None,
            lost_to=(),
        )


@dataclass(frozen=True, slots=True)
class Fresh:
    """There is no position, and none was lost: a first run, or an asset that reads no changes.

    Args:
        generation: The generation that the next commit counts in.
        epoch: The last epoch of that generation.
        foreign: The version of the newest commit by another program that added rows; None if there is none.
    """

    generation: Generation = FIRST_GENERATION
    epoch: int = 0
    foreign: int | None = None

    @property
    def reads(self) -> Mapping[str, Position]:
        return {}

    def furthest(self, source: str) -> int:
        return NOTHING_READ


@dataclass(frozen=True, slots=True)
class Lost:
    """The asset has written this table, but its log no longer shows what the asset had read.

    Args:
        reason: What happened, as the second half of a sentence.
    """

    reason: str
    generation: Generation
    epoch: int = 0

    @property
    def reads(self) -> Mapping[str, Position]:
        return {}

    def furthest(self, source: str) -> int:
        return NOTHING_READ


Cursor: TypeAlias = Known | Fresh | Lost
