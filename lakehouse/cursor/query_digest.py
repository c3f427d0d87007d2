"""What the query of a `View` said at a commit, so that a later run notices that it says something else."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryDigest:
    """A query, in digests.

    Args:
        text: Of its text, with the values of its parameters and the columns that its head declares.
        names: Of the columns of its tables, with their types, for which its names stand; None if nobody has looked.
        kind: The format of `names`, which goes with the parser. Digests of two kinds say nothing of each other.
        columns: Of all columns of its tables, as their logs have them: if these are others, names may stand for others.
            None if a log does not tell.
    """

    text: str
    names: str | None = None
    kind: str = ""
    columns: str | None = None

    def why_other(self, before: "QueryDigest | None", *, text_counts: bool) -> str | None:
        """Why the rows of an earlier commit are those of another query, as a clause; None if they are not.

        Args:
            before: The query of that commit. An earlier version of this library put none down, and is believed once.
            text_counts: Whether another text is another query. Under another text, nobody can tell whether its names
                stand for other columns.
        """
        if before is None:
            return None
        if before.text != self.text:
            return "its query, or a value in it, is another than at its last commit" if text_counts else None
        if None in (before.names, self.names) or before.kind != self.kind or before.names == self.names:
            return None
        return "names of its query stand for other columns of its tables than before"


def may_be_same(one: QueryDigest | None, other: QueryDigest | None) -> bool:
    """Whether two commits can be of one query, as far as both say which."""
    return one is None or other is None or one.why_other(other, text_counts=True) is None
