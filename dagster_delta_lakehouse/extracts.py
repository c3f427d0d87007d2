"""Full extracts that are delivered as files, one for each version: which one a run takes, and how it is read."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import dagster as dg
from pydantic import Field, field_validator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.cursor.cursor import Cursor
    from lakehouse.cursor.extract_version import ExtractVersion

Version: TypeAlias = int | date | datetime

_VERSION = "{version}"
_STRICT = {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"}
"""Have Spark compare the header of a CSV file with the columns, and fail at a value that does not fit."""


class ExtractConfig(dg.Config):
    """Which extract a run takes.

    Args:
        version: Its version, as in the name of its file; None if the run is to find the file that is next.
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

    def newest(self, spark: "SparkSession", address: str, config: ExtractConfig) -> tuple["DataFrame", Version]:
        """The rows of the newest extract, or of the one that a run's config names, and its version.

        Args:
            spark: The session.
            address: Where the files are, with {version} in it.
            config: The config of the run.

        Raises:
            Failure: There is no extract to take, or the config does not name a version of the declared type.
        """
        return self._read(spark, address, config.version or self.versions(address)[-1])

    def following(self, spark: "SparkSession", address: str, config: ExtractConfig) -> tuple["DataFrame", Version]:
        """The rows of the oldest extract that the table of the running step does not hold yet, and its version.

        If there is none, or no step is running, it is the newest extract. If the config names an extract, it is that
        one. Logs how many are left for other runs.

        Args:
            spark: The session.
            address: Where the files are, with {version} in it.
            config: The config of the run.

        Raises:
            Failure: As for `newest`, or as for `after`.
        """
        from lakehouse.dagster.contexts import asset_context

        context = asset_context()
        if config.version is not None or context is None:
            return self.newest(spark, address, config)
        versions = self.versions(address)
        new = self.after(_cursor_of(context), versions)
        if len(new) > 1:
            context.log.warning(
                f"This run takes the extract {new[0]}. Extracts that are left: {len(new) - 1}, up to {new[-1]}. Each "
                f"run takes one, oldest first: run the asset again for the next one."
            )
        return self._read(spark, address, new[0] if new else versions[-1])

    def after(self, cursor: "Cursor | None", versions: list[str]) -> list[str]:
        """The versions that a table does not hold yet, oldest first, by its cursor.

        Raises:
            Failure: The table holds rows, and its log does not show of which extract.
        """
        from lakehouse.cursor.cursor import Fresh, Known

        match cursor:
            case None | Fresh():
                return versions
            case Known(mark=mark) if mark.extract is not None and mark.extract.kind == self.version:
                at = mark.extract
                return [text for text in versions if at.is_before(self._order_of(text))]
            case Known(mark=mark) if mark.extract is not None:
                return versions[-1:]  # the table is of extracts with versions of another type, and the write is refused
            case _:
                raise _failure(
                    "The table does not say which extract it holds, so the next one cannot be found. Name the version "
                    "to go on with in the config of the run."
                )

    def _read(self, spark: "SparkSession", address: str, version: str) -> tuple["DataFrame", Version]:
        if not self._is_version(version):
            raise _failure(f"The config of the run names version {version!r}, and a version is of type {self.version}.")
        options = {**(_STRICT if self.format == "csv" else {}), **self.options}
        reader = spark.read.format(self.format).schema(self.columns).options(**options)
        return reader.load(address.replace(_VERSION, version)), self.version_of(version)

    def version_of(self, text: str) -> Version:
        """The version that the name of a file has.

        Raises:
            ValueError: The text is not a version of the declared type.
        """
        match self.version:
            case "int":
                return int(text)
            case "date":
                return date.fromisoformat(text)
            case "datetime":
                return datetime.fromisoformat(text)

    def versions(self, address: str) -> list[str]:
        """The versions of the files on this machine, oldest first, as their names have them; never empty.

        Args:
            address: Where the files are, with {version} in it.

        Raises:
            Failure: There is no such file, or the files are not on this machine.
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
        return sorted(versions, key=lambda text: cast("Any", self._order_of(text).value))

    def _order_of(self, text: str) -> "ExtractVersion":
        from lakehouse.cursor.extract_version import ExtractVersion

        return ExtractVersion.of(self.version_of(text))

    def _is_version(self, text: str) -> bool:
        try:
            self.version_of(text)
        except ValueError:
            return False
        return True


def _glob(path: str) -> Iterator[Path]:
    """The paths with any text where the version is, be it in the name of a file or of a folder."""
    anchor = Path(path.split(_VERSION, maxsplit=1)[0]).parent
    rest = Path(path).relative_to(anchor).as_posix()
    return anchor.glob(rest.replace(_VERSION, "*"))


def _cursor_of(context: dg.AssetExecutionContext) -> "Cursor | None":
    """The cursor of the table that a run writes; None if no manager of this library writes it."""
    from lakehouse.dagster.io_manager import writer_of

    writer = writer_of(context)
    return None if writer is None else writer.step_of(context).run.cursor


def _failure(problem: str) -> dg.Failure:
    return dg.Failure(f"{problem} Nothing was written.", allow_retries=False)
