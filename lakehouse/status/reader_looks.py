"""What each reader of a table holds back of its past."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.upkeep.due import past_upkeep
from lakehouse.upkeep.past_files import TablePast, past_of
from lakehouse.upkeep.readers import HeldBack, Reader, Readers

if TYPE_CHECKING:
    from lakehouse.delta.file_log import FileLog  # it loads deltalake, which a help text does without


@dataclass(frozen=True, slots=True)
class ReaderLook:
    """A reader, and what it holds back."""

    reader: Reader
    back: HeldBack


def reader_looks(readers: Readers, log: "FileLog") -> tuple[ReaderLook, ...]:
    """What each reader holds back; the files in the log are looked at only if that may be something.

    Nothing that upkeep has removed is held, so no commit is read twice that upkeep has passed.
    """
    head, past = readers.head, TablePast((), {})
    if readers.may_hold_back:
        past = past_of(log.entries_after(past_upkeep(log, head).freed_upto, head.version))
    return tuple(ReaderLook(reader, readers.held_by(reader, past)) for reader in readers.readers)


@dataclass(frozen=True, slots=True)
class Holder:
    """A reader that holds files back.

    Args:
        table: Of which table.
        reader: Its name.
        files: How many files it holds back.
        bytes: How large they are.
        until: When its limit ends, in milliseconds since the epoch; None of a reader that always keeps its limit.
    """

    table: str
    reader: str
    files: int
    bytes: int
    until: int | None
