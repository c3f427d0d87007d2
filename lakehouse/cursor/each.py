"""The cursors of many partitions: whoever asks for each of them walks over the log once, and not once for each."""

from collections.abc import Collection, Mapping

from lakehouse.cursor.cursor import FIRST_GENERATION, Cursor, Fresh, Lost
from lakehouse.cursor.find import Unmarked, cursor_in, lost_at
from lakehouse.cursor.walk import Past, mark_of, standing_by_generation
from lakehouse.errors import UnreadableLogError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Head, Log


def cursor_of_each(log: Log, head: Head | None, asset: str, partitions: Collection[str]) -> Mapping[str, Cursor]:
    """The cursor of each partition by itself: how far it has read, as `find_cursor` says it.

    The generation and the epoch are those of the position. The next commit of a partition needs those of `find_cursor`.

    Args:
        log: The log of the asset's own table.
        head: Where that table stands; None if there is no table.
        asset: The asset key, its parts joined by "/".
        partitions: The partition keys.

    Raises:
        UnreadableLogError, NewerMarkError: An own mark is damaged, or of a newer format.
    """
    if head is None:
        return dict.fromkeys(partitions, Fresh())
    past = Past.of(log, head)
    cursors, missing = dict[str, Cursor](), set(partitions)
    for commit, generation in standing_by_generation(past):
        mark = mark_of(commit, asset)
        if mark is not None:
            written = missing.intersection(mark.partitions) if mark.partitions else set(missing)
            if written:
                cursors |= dict.fromkeys(written, cursor_in(past, commit, mark, generation))
                missing -= written
        if not missing:
            return cursors
        lost = lost_at(commit, generation)
        if lost is not None:
            hidden = set(missing) if commit.is_first else _claimed_before(past, commit, asset, missing)
            cursors |= dict.fromkeys(hidden, lost)
            missing -= hidden
    return cursors | _of_unmarked(Unmarked.of(past, asset), missing)


def _claimed_before(past: Past, commit: Commit, asset: str, partitions: Collection[str]) -> set[str]:
    """The partitions of which a commit before another says that the asset wrote them; a damaged mark may name any."""
    claimed = set[str]()
    for older in past.back(commit.version):
        try:
            mark = mark_of(older, asset)
        except UnreadableLogError:
            return set(partitions)
        if mark is not None and not mark.partitions:
            return set(partitions)
        claimed.update(() if mark is None else mark.partitions)
    return claimed.intersection(partitions)


def _of_unmarked(unmarked: Unmarked, partitions: Collection[str]) -> dict[str, Cursor]:
    """The cursors of partitions of which no commit has a position; an epoch is asked for only if it decides."""
    if unmarked.oldest > 0 and (unmarked.has_own or unmarked.foreign is None):
        return dict.fromkeys(partitions, Lost(unmarked.reason, FIRST_GENERATION))
    return {partition: unmarked.cursor((partition,)) for partition in partitions}
