"""What is known about the rows that commits changed, before any row is read.

A commit that replaced rows by a predicate removed and added only rows that fulfil it, and the log holds the predicate.
If the table has deletion vectors, Delta's feed reads the whole files of such a commit to find its rows. With the
predicate, Parquet skips the pages that cannot hold such a row.
"""

from lakehouse.cursor.mark import is_mark
from lakehouse.limits import limits
from lakehouse.log.commit_info import Commit


def replaced_within(commits: tuple[Commit, ...]) -> str | None:
    """A condition that every removed or added row of the commits fulfils; None if none is known.

    Args:
        commits: The commits, of one schema.
    """
    predicates = [_predicate(commit) for commit in commits if not commit.is_quiet]
    terms = [f"({predicate})" for predicate in predicates if predicate is not None]
    return " OR ".join(terms) if terms and len(terms) == len(predicates) <= limits().replaced_predicates else None


def _predicate(commit: Commit) -> str | None:
    """Only for our own commits: in another program's predicate a value may depend on the session or its time zone."""
    predicate = commit.parameters.get("predicate")
    if not is_mark(commit.user_metadata) or commit.operation != "WRITE" or commit.parameters.get("mode") != "Overwrite":
        return None
    return None if predicate in (None, "", "[]", "true") or "TIMESTAMP" in predicate else predicate
