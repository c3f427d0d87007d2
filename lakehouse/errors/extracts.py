"""Extracts that a table does not take."""

from collections.abc import Mapping

from lakehouse.errors.base import ALLOW, FULL_REFRESH, WriteError, clause


class RefreshRefusedError(WriteError):
    """A full refresh of a table that is kept from extracts."""

    def __init__(self, asset: str) -> None:
        self.asset = asset
        super().__init__(
            f"'{asset}' is kept from extracts. Every run compares its extract with the whole table, so a full refresh "
            f"adds nothing.",
            f"Nothing was written. Run it without the tag {FULL_REFRESH}. If the table or its version is wrong, run it "
            f"with the tag {ALLOW}{asset}=version, which takes the extract whatever the table holds.",
        )


class UnknownExtractError(WriteError):
    """An extract of which nobody can tell whether it is older than the table's."""

    def __init__(self, asset: str, version: str, reason: str) -> None:
        self.asset, self.version, self.reason = asset, version, reason
        super().__init__(
            f"Nobody can tell whether extract {version} of '{asset}' is newer than its table: {clause(reason)}.",
            f"Nothing was written. If the extract is the one that the table is to hold, materialize once with the run "
            f"tag {ALLOW}{asset}=version.",
        )


class OlderExtractError(WriteError):
    """An extract that is older than the one that the table holds."""

    def __init__(self, asset: str, version: str, newest: str) -> None:
        self.asset, self.version, self.newest = asset, version, newest
        super().__init__(
            f"Extract {version} of '{asset}' is older than extract {newest}, which its table holds.",
            "Nothing was written. Deliver extracts in their order, or let older extracts be left out: "
            "Snapshot(..., on_older='ignore').",
        )


class EmptyExtractError(WriteError):
    """An extract without rows, which is more often a failed delivery than an empty source."""

    def __init__(self, asset: str, version: str) -> None:
        self.asset, self.version = asset, version
        super().__init__(
            f"Extract {version} of '{asset}' has no row.",
            f"Nothing was written. If its source is empty, materialize once with the run tag "
            f"{ALLOW}{asset}=max_deleted.",
        )


class OutOfScopeError(WriteError):
    """An extract with a row outside the values that its scope names."""

    def __init__(self, asset: str, version: str, values: Mapping[str, str]) -> None:
        self.asset, self.version, self.values = asset, version, dict(values)
        listed = ", ".join(f"{name}={value}" for name, value in values.items())
        super().__init__(
            f"Extract {version} of '{asset}' has a row with {listed}, which its scope does not name.",
            "Nothing was written. Name every value that was delivered in Snapshot(scope=...), or leave such rows out.",
        )


class DeletionsHeldBackError(WriteError):
    """An extract that would delete more rows than it may."""

    def __init__(self, asset: str, version: str, deleted: int, of: int, max_deleted: float) -> None:
        self.asset, self.version, self.deleted, self.of, self.max_deleted = asset, version, deleted, of, max_deleted
        super().__init__(
            f"Extract {version} of '{asset}' lacks {deleted:,} of the {of:,} rows in its scope, more than "
            f"max_deleted={max_deleted} lets it delete.",
            f"Nothing was written. If these rows are gone at the source, materialize once with the run tag "
            f"{ALLOW}{asset}=max_deleted.",
        )
