"""What can be wrong with a machine or its settings. No table was looked at and nothing was written.

* LakehouseError
  x SetupError
    - NotInstalledError
    - UnsafeSettingError
    - VariableError
"""

from collections.abc import Iterable

from lakehouse.errors import LakehouseError


class SetupError(LakehouseError):
    """Spark cannot be started here as asked."""


class NotInstalledError(SetupError):
    """Java or Delta's jars are missing or are not the right ones."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Spark was not started. {problem}")


class UnsafeSettingError(SetupError):
    """Settings under which rows could be lost, or secrets shown, without an error."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(" ".join(self.problems))


class VariableError(SetupError):
    """An environment variable that is missing or means nothing."""

    def __init__(self, variable: str, value: str | None, problem: str) -> None:
        self.variable, self.value, self.problem = variable, value, problem
        shown = f"{variable} is not set" if value is None else f"{variable} = {value}"
        super().__init__(f"{shown}: {problem}")
