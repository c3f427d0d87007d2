"""Full extracts that are delivered as files, one for each version: which one a run takes, and how it is read."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import dagster as dg
from pydantic import Field, field_validator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Version: TypeAlias = int | date | datetime

_VERSION = "{version}"
_STRICT = {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"}
"""So that Spark compares the header of a CSV file with the columns, and fails at a value that does not fit."""


class ExtractConfig(dg.Config):
    """Which extract a run takes.

    Args:
        version: Its version, as its file's name has it; None for the newest file.
    """

    version: str | None = None


class Extracts(dg.Resolvable, dg.Model):
    """The files of full extracts, each with its version in its name."""

    files: str = Field(
        description="Where they are, with {version} where their versions are: landing/customers-{version}.csv. A path "
        "begins at the project's folder. Elsewhere than on this machine, the config of a run names the version."
    )
    version: Literal["int", "date", "datetime"] = Field(
        default="date", description="Their type; dates and times in ISO form."
    )
    columns: str = Field(description="The columns and their types, as in CREATE TABLE: 'customer_id INT, name STRING'.")
    format: Literal["csv", "json", "parquet", "orc"] = "csv"
    options: dict[str, str] = Field(
        default={}, description="Options of Spark's reader. A CSV file is read strictly, by its header."
    )

    @field_validator("files")
    @classmethod
    def _refuse_unclear_files(cls, files: str) -> str:
        if files.count(_VERSION) != 1:
            times = files.count(_VERSION)
            where = "once, where the versions of the extracts are"
            raise ValueError(f"{_VERSION} stands {where}, and not {times} times: {files}")
        return files

    def taken(self, spark: "SparkSession", address: str, config: ExtractConfig) -> tuple["DataFrame", Version]:
        """The rows of the extract that a run takes, and its version.

        Args:
            spark: The session.
            address: Where the files are, with {version} in it.
            config: The config of the run.

        Raises:
            Failure: There is no extract to take, or the config names none of the declared kind.
        """
        version = config.version or self.newest(address)
        if not self._is_version(version):
            raise _failure(f"The config of the run names version {version!r}, and a version is of type {self.version}.")
        options = {**(_STRICT if self.format == "csv" else {}), **self.options}
        reader = spark.read.format(self.format).schema(self.columns).options(**options)
        return reader.load(address.replace(_VERSION, version)), self.version_of(version)

    def version_of(self, text: str) -> Version:
        """The version that the name of a file has.

        Raises:
            ValueError: It is none of the declared type.
        """
        match self.version:
            case "int":
                return int(text)
            case "date":
                return date.fromisoformat(text)
            case "datetime":
                return datetime.fromisoformat(text)

    def newest(self, address: str) -> str:
        """The version of the newest file on this machine.

        Args:
            address: Where the files are, with {version} in it.

        Raises:
            Failure: There is no such file, or the files are on no disk of this machine.
        """
        from lakehouse.delta.location import Location, Storage

        location = Location(address)
        if location.storage is not Storage.FILES:
            raise _failure(f"Only files of this machine are listed: the config names the version of {address}.")
        before, after = location.path.split(_VERSION)
        pattern = re.compile(re.escape(before) + "(?P<version>[^/]+)" + re.escape(after))
        matches = (pattern.fullmatch(str(path)) for path in _glob(location.path))
        versions = [match["version"] for match in matches if match is not None and self._is_version(match["version"])]
        if not versions:
            raise _failure(f"There is no extract at {address}: no name has a version of type {self.version}.")
        return max(versions, key=self.version_of)

    def _is_version(self, text: str) -> bool:
        try:
            self.version_of(text)
        except ValueError:
            return False
        return True


def _glob(path: str) -> Iterator[Path]:
    """What is where a version may stand in a path: in the name of a file, or of a folder."""
    anchor = Path(path.split(_VERSION, maxsplit=1)[0]).parent
    rest = Path(path).relative_to(anchor).as_posix()
    return anchor.glob(rest.replace(_VERSION, "*"))


def _failure(problem: str) -> dg.Failure:
    return dg.Failure(f"{problem} Nothing was written.", allow_retries=False)
