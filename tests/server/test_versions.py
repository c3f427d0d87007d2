"""The versions that are tested: one table, which code, packaging and pages agree with; others are refused."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lakehouse.server.errors import VersionError
from lakehouse.server.jars import JARS
from lakehouse.server.versions import TESTED, refuse_untested

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
REQUIRED: list[str] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]


def required(name: str) -> Any:
    (line,) = (line for line in REQUIRED if re.match(rf"{name}\b(?!-)", line))
    return line.removeprefix(name)


def test_what_is_installed_is_tested():
    for program, package in (("Spark", "pyspark"), ("Dagster", "dagster")):
        refuse_untested(program, version(package))


def test_the_requirements_are_the_table():
    assert required("pyspark") == f"=={TESTED['Spark'].highest}"
    low, high = (TESTED["Dagster"].lowest.rsplit(".", 1)[0], TESTED["Dagster"].highest.split("."))
    assert required("dagster") == f">={low},<{high[0]}.{int(high[1]) + 1}"
    assert {jar.revision for jar in JARS if jar.organisation == "io.delta"} == {TESTED["Delta"].highest}


@pytest.mark.parametrize("program", TESTED)
def test_the_readme_has_the_table(program: str):
    assert re.search(rf"^\| {program} \| {re.escape(str(TESTED[program]))}\b", README, re.MULTILINE)


@pytest.mark.parametrize("spark", ["4.2.0", "4.2.1", "4.2.0-amzn-1"])
def test_a_repaired_version_passes(spark: str):
    refuse_untested("Spark", spark)


@pytest.mark.parametrize(("program", "other"), [("Spark", "4.3.0"), ("Spark", "3.5.7"), ("Dagster", "1.12.9")])
def test_another_version_is_refused_in_one_sentence_that_names_the_tested_ones(program: str, other: str):
    with pytest.raises(VersionError, match=rf"{program} {other} is not among .*Install {program} {TESTED[program]}\."):
        refuse_untested(program, other)
