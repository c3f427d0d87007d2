"""What can be wrong with a machine or its settings.

* LakehouseError
  x SetupError
    - NotInstalledError
    - OtherSparkError
    - ServerError
    - UnsafeSettingError
    - VariableError
    - VersionError
  x ServerLostError
"""

from collections.abc import Iterable
from pathlib import Path

from lakehouse.errors import LakehouseError


class SetupError(LakehouseError):
    """Spark cannot be started here as requested. No table was read and nothing was written."""

    code = "SETUP"


class NotInstalledError(SetupError):
    """Java or Delta's jars are missing or are not the right ones."""

    code = "NOT_INSTALLED"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Spark was not started. {problem}")


class ServerError(SetupError):
    """The Spark server of a root cannot be started, used or stopped."""

    code = "SERVER"

    def __init__(self, root: Path, problem: str) -> None:
        self.root, self.problem = root, problem
        super().__init__(f"The Spark server of {root}: {problem}")


class ServerLostError(LakehouseError, ConnectionError):
    """The Spark server of a root ended while this process used it.

    A commit in progress is in the table or not, never in part. The next run finds out from the log and continues, on a
    new server.
    """

    code = "SERVER_LOST"

    def __init__(self, root: Path, reason: str) -> None:
        self.root, self.reason = root, reason
        super().__init__(
            f"The Spark server of {root} ended while it was used: {reason} What was committed stays, and nothing is "
            f"half done. Run this again: a new server starts by itself."
        )


class UnsafeSettingError(SetupError):
    """Settings under which rows could be lost, or secrets shown, without an error."""

    code = "UNSAFE_SETTING"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(" ".join(self.problems))


class VariableError(SetupError):
    """An environment variable that is missing or means nothing."""

    code = "VARIABLE"

    def __init__(self, variable: str, value: str | None, problem: str) -> None:
        self.variable, self.value, self.problem = variable, value, problem
        shown = f"{variable} is not set" if value is None else f"{variable} = {value}"
        super().__init__(f"{shown}: {problem}")


class VersionError(SetupError):
    """A version of Spark, Delta or Dagster with which the library is not tested."""

    code = "VERSION"

    def __init__(self, program: str, version: str, tested: str, install: str) -> None:
        self.program, self.version, self.tested = program, version, tested
        super().__init__(
            f"{program} {version} is not among the versions that this library is tested with ({tested}), so it is "
            f"refused: what another one writes might be wrong without an error. Nothing was written. Install {install}."
        )


class OtherSparkError(SetupError):
    """A part of Spark is made for another minor version of Spark than the session's."""

    code = "OTHER_SPARK"

    def __init__(self, part: str, spark: str, install: str) -> None:
        self.part, self.spark = part, spark
        super().__init__(f"{part}, and this Spark is {spark}. Nothing was read or written. {install}.")
