"""The versions that the library is tested with: the one table of them, for the code, pyproject.toml and the README."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.server.errors import VersionError


@dataclass(frozen=True, slots=True)
class Tested:
    """The versions of one program.

    Args:
        lowest: The lowest that is tested.
        highest: The highest that is tested, and all that differ from it in the last number alone.
    """

    lowest: str
    highest: str

    def admits(self, version: str) -> bool:
        """Whether a version is in the range; a higher last number of the highest is a repair and passes."""
        number, low, high = (_numbers(text) for text in (version, self.lowest, self.highest))
        return low <= number and number[:2] <= high[:2]

    def __str__(self) -> str:
        return self.lowest if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


TESTED: Mapping[str, Tested] = {
    "Spark": Tested("4.2.0", "4.2.0"),
    "Delta": Tested("4.4.0", "4.4.0"),
    "Dagster": Tested("1.13.0", "1.13.27"),
}


def refuse_untested(program: str, version: str) -> None:
    """Does nothing where a version is one of those that are tested.

    Raises:
        VersionError: It is another one.
    """
    if not TESTED[program].admits(version):
        raise VersionError(program, version, str(TESTED[program]))


def _numbers(version: str) -> tuple[int, ...]:
    """4, 2, 0 of "4.2.0-amzn-1"; what follows a number that is none does not count."""
    numbers: list[int] = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return tuple(numbers)
