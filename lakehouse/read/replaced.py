"""What is known of the rows that commits changed before any of them is read.

A commit that replaced rows by a predicate removed and added only rows that fulfil it, and says so in the log. Where the
table has deletion vectors Delta's feed reads such a commit's files whole to find its rows; given the predicate, Parquet
leaves out the pages that cannot hold one.
"""

from lakehouse.cursor.mark import Mark
from lakehouse.log.commit_info import Commit

COMMITS = 10
"""Predicates of more commits than this are not worth evaluating."""


def replaced_within(commits: tuple[Commit, ...]) -> str | None:
    """A condition that every row which the commits removed or added fulfils; None where none is known.

    Args:
        commits: The commits, of one schema.
    """
    known = [_predicate(commit) for commit in commits if not commit.is_quiet]
    told = [f"({predicate})" for predicate in known if predicate is not None]
    return " OR ".join(told) if told and len(told) == len(known) <= COMMITS else None


def _predicate(commit: Commit) -> str | None:
    """Of our own commits only: in another program's words a value may depend on its session, an instant on its zone."""
    try:
        is_ours = Mark.from_json(commit.user_metadata) is not None
    except ValueError:
        return None
    predicate = commit.parameters.get("predicate")
    if not is_ours or commit.operation != "WRITE" or commit.parameters.get("mode") != "Overwrite":
        return None
    return None if predicate in (None, "", "[]", "true") or "TIMESTAMP" in predicate else predicate
