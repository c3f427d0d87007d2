"""What upkeep refuses: a reader that cannot be registered, a table that it must not touch."""

from typing import Self

from lakehouse.errors.base import LakehouseError, clause, with_code


class UpkeepError(LakehouseError):
    """A reader of a table cannot be registered or released, or a table cannot be kept in shape. Nothing was changed."""

    @classmethod
    @with_code("READER_NAME")
    def reader_name(cls, table: str, reader: str, problem: str) -> Self:
        """A name that a reader cannot have, or that no reader has."""
        return cls(
            f"The reader '{reader}' of '{table}' was not changed: {clause(problem)}.",
            f"Nothing was committed. `lakehouse readers {table}` lists the readers.",
        )

    @classmethod
    @with_code("NOT_OURS")
    def not_ours(cls, table: str, why: str, remedy: str) -> Self:
        """A table that upkeep must not change: another program writes it, or this process cannot read its log."""
        return cls(f"'{table}' was left as it is: {clause(why)}.", f"Nothing was changed. {remedy}")
