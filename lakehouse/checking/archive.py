"""Whether an archive holds the feed of its source, commit by commit."""

from collections.abc import Mapping, Sequence

from lakehouse.checking.finding import SHOWN, Finding, Grade
from lakehouse.log.commit_info import Commit
from lakehouse.log.rows import counted


def archive(asset: str, source: str, begins: int, commits: Sequence[Commit], rows: Mapping[int, int]) -> Finding:
    """An archive is whole if it has, of each commit of its source, as many rows as the commit says that its feed has.

    Args:
        asset: The archive's name.
        source: The source's name.
        begins: The version of the source after which the archive holds every change, as its mark says.
        commits: The commits of the source after that version which the archive has read, and the log still has.
        rows: How many rows the archive has, by version of the source.
    """
    counts = {commit.version: commit.rows.images for commit in commits}
    wrong = {version: count for version, count in counts.items() if count is not None and rows.get(version, 0) != count}
    figures = {"commits": sum(count is not None for count in counts.values()), "commits that differ": len(wrong)}
    if not wrong:
        return Finding(
            Grade.PASSED,
            f"'{asset}' holds every change of '{source}' after version {begins}: "
            f"{counted(figures['commits'], 'commit')} counted.",
            figures,
        )
    sentence = (
        f"'{asset}' and the feed of '{source}' differ in the number of rows of {counted(len(wrong), 'commit')}. "
        f"A table that reads '{asset}' in place of the feed would be wrong. Keep another archive, while the feed is "
        f"there."
    )
    shown = sorted(wrong.items())[:SHOWN]
    records = tuple(
        {"version": version, "rows of the commit": count, "rows here": rows.get(version, 0)} for version, count in shown
    )
    return Finding(Grade.FAILED, sentence, figures, records)


def edited(asset: str, since: int) -> Finding:
    """The finding about an archive whose rows somebody else has changed.

    Args:
        asset: The archive's name.
        since: The version of the archive's last own commit.
    """
    return Finding(
        Grade.WARNS,
        f"Somebody else has changed rows of '{asset}' since its own commit of version {since}. What reads it in place "
        f"of a feed can do so only for the changes that its next runs append.",
    )


def no_archive(asset: str) -> Finding:
    """The finding about a table that keeps something else than the whole feed of one source."""
    return Finding(Grade.PASSED, f"'{asset}' is no archive: it appends something else than the whole feed of a source.")
