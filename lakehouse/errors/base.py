"""The roots of the tree of errors, and the run tags that their sentences name."""

from typing import ClassVar

FULL_REFRESH = "lakehouse/full_refresh"
"""Run tag: "true", or asset keys separated by commas. These tables are reconciled with their whole sources."""


GO_ON_FROM = "lakehouse/go_on_from/"
"""Run tag, with the asset key after it: the version of the source that an `Append` continues from, or "now"."""


RESTATE_FROM = "lakehouse/restate_from/"
"""Run tag, with the asset key after it: from when a `History` is restated, a time or the version of an extract."""


ALLOW = "lakehouse/allow/"
"""Run tag, with the asset key after it: what this run lets through, "max_deleted" or "version"."""


class LakehouseError(Exception):
    """Every failure of this package.

    Args:
        happened: What happened, to which table, at which versions: a whole sentence.
        then: The sentences after that: what is true now, and what to do.
    """

    code: ClassVar[str] = "LAKEHOUSE"
    """What documents and searches find, as `lakehouse.<code>`: it stays, whatever becomes of the sentences."""

    def __init__(self, happened: str, *then: str) -> None:
        self.happened = happened
        super().__init__(" ".join((happened, *then)))


class DefinitionError(LakehouseError):
    """An asset that could never work; refused when the code location loads."""

    code = "DEFINITION"


class ReadError(LakehouseError):
    """A source that cannot be read as declared. Nothing was written."""

    code = "READ"


class WriteError(LakehouseError):
    """A result that cannot become the table. Nothing was written."""

    code = "WRITE"


def clause(text: str) -> str:
    """A text that stands inside one of our sentences, which brings its own full stop."""
    return text.strip().rstrip(".")
