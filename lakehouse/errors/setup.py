"""What is wrong before a run begins: with a definition, a machine or its settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lakehouse.errors.base import LakehouseError, clause, with_code

CONNECT = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which PySpark's functions decide for which Spark they are made."""


class DefinitionError(LakehouseError):
    """An asset that could never work; refused when the code location loads."""

    code = "DEFINITION"

    @classmethod
    @with_code("MISSING_KEY")
    def missing_key(cls, asset: str, write: str) -> Self:
        """A write by key to a table that declares no key."""
        article = "an" if write[0] in "AEIOU" else "a"
        return cls(
            f"Asset '{asset}' returns {article} {write} but its table declares no key. Add metadata=Table(key=...)."
        )

    @classmethod
    @with_code("UNSUPPORTED_ANNOTATION")
    def unsupported_annotation(cls, asset: str, where: str, annotation: str | None, allowed: Sequence[str]) -> Self:
        """An annotation that says neither how to read nor how to write."""
        problem = f"annotates {where} with {annotation}, which says nothing about a Delta table"
        if annotation is None:
            problem = f"does not annotate {where}, so nothing says how its table is read or written"
        return cls(f"Asset '{asset}' {problem}. Use {' or '.join(allowed)}.")

    @classmethod
    @with_code("PARTITION_COLUMN")
    def partition_column(cls, asset: str, problem: str) -> Self:
        """A partitioned asset whose partitions cannot be found in the table's columns."""
        return cls(f"Asset '{asset}' is partitioned, but {problem}")

    @classmethod
    @with_code("CONDITION")
    def condition(cls, asset: str, condition: str, why: str) -> Self:
        """A text of an expectation, or of `owns`, that is not a condition on the columns of one row."""
        return cls(
            f"Asset '{asset}' has the condition ({condition}) on rows of its table, but {clause(why)}. Write a "
            f"condition that is true or false of one row, and compute what it needs as a column of the result."
        )


class SetupError(LakehouseError):
    """Spark cannot be started or used here as requested. Nothing was written."""

    @classmethod
    @with_code("NOT_INSTALLED")
    def not_installed(cls, problem: str) -> Self:
        """Java or Delta's jars are missing or are not the right ones."""
        return cls(f"Spark was not started. {problem}")

    @classmethod
    @with_code("SERVER")
    def server(cls, root: Path, problem: str) -> Self:
        """The Spark server of a root cannot be started, used or stopped."""
        return cls(f"The Spark server of {root}: {problem}")

    @classmethod
    @with_code("UNSAFE_SETTING")
    def unsafe_setting(cls, problems: Sequence[str]) -> Self:
        """Settings under which rows could be lost, or secrets shown, without an error."""
        return cls(" ".join(problems))

    @classmethod
    @with_code("VARIABLE")
    def variable(cls, variable: str, value: str | None, problem: str) -> Self:
        """An environment variable that is missing or means nothing."""
        shown = f"{variable} is not set" if value is None else f"{variable} = {value}"
        return cls(f"{shown}: {problem}")

    @classmethod
    @with_code("VERSION")
    def version(cls, program: str, version: str, tested: str, install: str) -> Self:
        """A version of Spark, Delta or Dagster with which the library is not tested."""
        return cls(
            f"{program} {version} is not among the versions that this library is tested with ({tested}), so it is "
            f"refused: what another one writes might be wrong without an error. Nothing was written. Install {install}."
        )

    @classmethod
    @with_code("OTHER_SPARK")
    def other_spark(cls, problem: str, remedy: str) -> Self:
        """A jar, or a client, is made for another minor version of Spark than the session's."""
        return cls(f"{clause(problem)}.", f"Nothing was written. {remedy}.")

    @classmethod
    @with_code("OF_CLASSIC_SPARK")
    def of_classic_spark(cls, what: str) -> Self:
        """A function or a column of PySpark that was made before PySpark could know that Spark is a Connect server."""
        return cls(
            f"{what} uses a function or a column of PySpark that was made for classic Spark, and Spark is a Spark "
            f"Connect server here. PySpark decides that where `@F.udf` or `F.col(...)` stands at the top of a module: "
            f"when the module is imported, by the variable {CONNECT}.",
            f"Nothing was written. Put {CONNECT}=1 into the file .env of the project, and in tests set "
            f'os.environ["{CONNECT}"] = "1" in conftest.py. Or make the function within the asset\'s function.',
        )


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
