"""The versions that the library is tested with: the one table of them, for the code, pyproject.toml and the README."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from lakehouse.errors import SetupError


@dataclass(frozen=True, slots=True)
class Tested:
    """The versions of one program.

    Args:
        lowest: The lowest that is tested.
        highest: The highest that is tested. It also stands for versions that differ from it in the last number alone.
    """

    lowest: str
    highest: str

    def admits(self, version: str) -> bool:
        """Whether a version is in the range; a higher last number of the highest is a repair and passes."""
        number, low, high = (_numbers(text) for text in (version, self.lowest, self.highest))
        return low <= number and number[:2] <= high[:2]

    def repairs(self, version: str) -> bool:
        """Whether a version that is admitted is newer than the highest that was tested."""
        return self.admits(version) and _numbers(version) > _numbers(self.highest)

    @property
    def requirement(self) -> str:
        """The range as a package's requirement: >=4.0.1,<4.3."""
        major, middle = _numbers(self.highest)[:2]
        return f">={self.lowest},<{major}.{middle + 1}"

    def __str__(self) -> str:
        return self.lowest if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


TESTED: Mapping[str, Tested] = {
    "Spark": Tested("4.0.1", "4.2.0"),
    "Delta": Tested("4.4.0", "4.4.0"),
    "Dagster": Tested("1.13.0", "1.13.27"),
}

_PACKAGES = {"Spark": "pyspark", "Delta": "delta-spark", "Dagster": "dagster"}
_DELTA_JAR = re.compile(r"\bdelta-spark_(\d+\.\d+)_2\.\d+\b")
_ON_THE_CLASS_PATH = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def refuse_untested(program: str, version: str) -> None:
    """Refuses a version that is not one of those that are tested.

    Raises:
        SetupError (VERSION): The version is not tested.
    """
    if not TESTED[program].admits(version):
        raise SetupError.version(
            program, version, str(TESTED[program]), _PACKAGES[program] + TESTED[program].requirement
        )


_OF_A_VENDOR = re.compile(r"\d+(?:\.\d+)+[-.](?!dev|snapshot|preview|rc\d|alpha|beta)[a-z]", re.IGNORECASE)


def is_of_a_vendor(version: str) -> bool:
    """Whether a version is of a vendor's build, such as 4.0.2-amzn-0, whose numbers do not show what it can do."""
    return _OF_A_VENDOR.match(version) is not None


def untested_build(program: str, version: str, is_of_a_platform: Callable[[], bool] = lambda: False) -> str | None:
    """The name of a vendor's build that has not been tested, with its version; None for a tested version.

    Raises:
        SetupError (VERSION): The version is not tested, and not a vendor's build of the same major version.
    """
    tested = TESTED[program]
    if tested.admits(version):
        return None
    if _numbers(version)[0] != _numbers(tested.highest)[0] or not (is_of_a_vendor(version) or is_of_a_platform()):
        refuse_untested(program, version)
    return f"{program} {version} (tested: {tested})"


def minor(version: str) -> str:
    """4.2 for "4.2.0-amzn-1": Delta has a jar for each minor version."""
    return ".".join(str(number) for number in _numbers(version)[:2])


_BRING_PYSPARK = ("pyspark", "databricks-connect")
"""The packages that install the files of `pyspark`; each silently overwrites those of the other."""


def pyspark_of() -> tuple[str, ...]:
    """The packages that have installed `pyspark`, with their versions: first the one whose files are in use."""
    brought = list[tuple[bool, str]]()
    for name in _BRING_PYSPARK:
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        brought.append((_is_in_force(package), f"{name} {package.version}"))
    return tuple(name for _, name in sorted(brought, reverse=True))


def _is_in_force(package: Distribution) -> bool:
    """Whether the file with pyspark's version is still the one that the package installed."""
    for file in package.files or ():
        if file.as_posix() == "pyspark/version.py" and file.hash is not None:
            content = Path(str(file.locate())).read_bytes()
            return urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode() == file.hash.value
    return False


def refuse_other_client(server: str, client: str) -> None:
    """Refuses a Spark Connect server whose minor version is not that of this process's PySpark.

    Raises:
        SetupError (OTHER_SPARK): The two minor versions differ.
    """
    if minor(server) != minor(client):
        raise SetupError.other_spark(
            f"PySpark {client} of this process ({' over '.join(pyspark_of())}) is the client of a Spark Connect "
            f"server of Spark {server}",
            f'Install "pyspark[connect]=={minor(server)}.*", or connect to a server of Spark {minor(client)}',
        )


def refuse_other_jars(spark: str, settings: Mapping[str, str]) -> None:
    """Refuses settings of a session that name Delta's jars for a Spark other than the session's.

    Raises:
        SetupError (OTHER_SPARK): They name such jars.
    """
    for name in _ON_THE_CLASS_PATH:
        for jar in _DELTA_JAR.finditer(settings.get(name, "")):
            if jar.group(1) != minor(spark):
                raise SetupError.other_spark(
                    f"{name} has Delta's jar for Spark {jar.group(1)} ({jar.group(0)}), and this Spark is {spark}",
                    give_jar(spark),
                )


def give_jar(spark: str) -> str:
    """The advice to give a version of Spark the jar of Delta that it needs."""
    return f"Give it io.delta:delta-spark_{minor(spark)}_2.13:{TESTED['Delta'].highest}"


def _numbers(version: str) -> tuple[int, ...]:
    """4, 2, 0 for "4.2.0-amzn-1"; in each part, what follows its digits does not count."""
    numbers: list[int] = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return tuple(numbers)
