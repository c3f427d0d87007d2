"""The code and the query behind a table, as digests, so that a later run notices if they have changed."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LONGEST = 1_000
"""The most characters of the parts in a mark, so that a mark stays small even if a project is large."""
NAMED = 3
"""At most this many changed parts are named in a sentence."""


@dataclass(frozen=True, slots=True)
class Code:
    """The code of an asset's function and of what it names: a digest of all, and short ones that show what changed.

    Args:
        kind: The format of the digest and Python's minor version. Digests of two kinds cannot be compared.
        digest: A digest of all the code.
        parts: A short digest of each function, class and constant by its name, the asset's own function first; of a
            large project only those that are nearest to that function.
    """

    kind: str
    digest: str
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, kind: str, whole: Iterable[str], parts: Mapping[str, str]) -> "Code":
        """The code as digests of its texts: of all of them as a whole, and of each part."""
        short, length = dict[str, str](), 0
        for name, text in parts.items():
            length += len(json.dumps({name: short_hash(text, 8)}))
            if length > LONGEST:
                break
            short[name] = short_hash(text, 8)
        return cls(kind, short_hash("\n\n".join(whole), 16), short)

    def is_as_in(self, before: "Code | None") -> bool:
        """Whether a mark has this code, so that it need not be recorded again."""
        return before is not None and (before.kind, before.digest) == (self.kind, self.digest)

    def why_other(self, before: "Code | None") -> str | None:
        """Which code differs from that of a mark, as half a sentence; None if none does, or if that is not known.

        A mark without code, or with code of another kind, is believed once.
        """
        if before is None or before.kind != self.kind or before.digest == self.digest:
            return None
        function = next(iter(self.parts), "its function")
        names = [*self.parts, *(name for name in before.parts if name not in self.parts)]
        others = [name for name in names if before.parts.get(name) != self.parts.get(name) and name != function]
        if before.parts.get(function) != self.parts.get(function):
            return f"the code of {function} changed{_enumeration(others, ', and of')}"
        return f"the code that {function} names changed{_enumeration(others, ':')}"


def short_hash(text: str, length: int) -> str:
    """A hash of a text, in `length` hexadecimal digits."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:length]


def _enumeration(names: list[str], word: str) -> str:
    if not names:
        return ""
    more = [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
    *most, last = [*names[:NAMED], *more]
    return f"{word} " + (" and ".join([", ".join(most), last]) if most else last)


@dataclass(frozen=True, slots=True)
class QueryDigest:
    """A query, as digests.

    Args:
        text: That of its text, with the values of its parameters and the columns that its head declares.
        names: That of the columns of its tables, with their types, for which its names stand; None if not looked up.
        kind: The format of `names`, which depends on the parser. Digests of two kinds cannot be compared.
        columns: That of all columns of its tables, by their logs: if these change, names may stand for other columns.
            None if a log does not show them.
    """

    text: str
    names: str | None = None
    kind: str = ""
    columns: str | None = None

    def why_other(self, before: "QueryDigest | None", *, text_counts: bool) -> str | None:
        """Why the rows of an earlier commit are those of another query, as a clause; None if they are not.

        Args:
            before: The query of that commit. An earlier version of this library recorded none, and is believed once.
            text_counts: Whether another text is another query. Under another text, it is not known whether its names
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
    """Whether two commits can be of one query, as far as both record which."""
    return one is None or other is None or one.why_other(other, text_counts=True) is None
