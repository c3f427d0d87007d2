"""Whether the next run can read on from where the table stands, commit by commit."""

from collections.abc import Sequence

from lakehouse.checking.finding import Finding, Grade
from lakehouse.cursor.unread import Unread
from lakehouse.log.rows import counted


def feed(asset: str, sources: Sequence[Unread]) -> Finding:
    """The feed of a source is contiguous when it is kept and each commit after the position is there.

    Args:
        asset: The asset's name.
        sources: What it has not read of each source that it reads as changes.
    """
    problems = {source.source: why for source in sources if (why := _broken(source)) is not None}
    versions = sum(source.versions for source in sources)
    if problems:
        listed = "; ".join(f"'{source}': {why}" for source, why in problems.items())
        sentence = (
            f"The next run of '{asset}' cannot read on by the feed ({listed}). It compares everything instead, or "
            "fails and says what to do if it may not."
        )
    else:
        sentence = f"Every commit that '{asset}' has not read is there ({counted(versions, 'version')} with rows)."
    return Finding(
        Grade.FAILED if problems else Grade.PASSED,
        sentence,
        {"sources with a gap": len(problems)},
        tuple({"source": source.source, "feed": problems.get(source.source, "contiguous")} for source in sources),
    )


def _broken(source: Unread) -> str | None:
    if source.gap is None and not source.head.keeps_feed:
        return "its change data feed was switched off"
    return source.gap
