"""The tested versions: code, packaging and pages agree with one table, and other versions are refused."""

import re
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import lakehouse
from lakehouse.server.jars import delta_jars, s3_jars
from lakehouse.server.versions import (
    TESTED,
    minor,
    refuse_other_client,
    refuse_other_jars,
    refuse_untested,
    untested_build,
)
from tests.support.for_each import for_each
from tests.support.raises import raises_code

PROJECT = Path(__file__).parents[2]
README = (PROJECT / "README.md").read_text()
SPARKS = [
    re.findall(r"^pyspark==(\S+)", (PROJECT / name).read_text(), re.MULTILINE)[0]
    for name in ("requirements-spark40.lock", "requirements-spark41.lock", "requirements.lock")
]
REQUIRED: list[str] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]


def required(name: str) -> Any:
    (line,) = (line for line in REQUIRED if re.match(rf"{name}\b(?!-)", line))
    return line.removeprefix(name)


def test_what_is_installed_is_tested():
    for program, package in (("Spark", "pyspark"), ("Dagster", "dagster")):
        refuse_untested(program, version(package))


def test_the_requirements_are_the_table():
    assert required("pyspark") == TESTED["Spark"].requirement
    low, high = (TESTED["Dagster"].lowest.rsplit(".", 1)[0], TESTED["Dagster"].highest.split("."))
    assert required("dagster") == f">={low},<{high[0]}.{int(high[1]) + 1}"
    for spark in SPARKS:
        assert {jar.revision for jar in delta_jars(spark) if jar.organisation == "io.delta"} == {
            TESTED["Delta"].highest
        }


def test_each_tested_spark_has_jars_and_an_environment_of_its_own():
    assert {minor(spark) for spark in SPARKS} == {"4.0", "4.1", "4.2"}
    for spark in SPARKS:
        refuse_untested("Spark", spark)
        assert delta_jars(spark)[0].name == f"delta-spark_{minor(spark)}_2.13"
        assert s3_jars(spark)[0].name == "hadoop-aws"
    assert len({delta_jars(spark)[0].sha256 for spark in SPARKS}) == len({s3_jars(spark) for spark in SPARKS}) == 3
    assert TESTED["Spark"].lowest in SPARKS and TESTED["Spark"].highest in SPARKS


@for_each("program", TESTED)
def test_the_readme_has_the_table(program: str):
    assert re.search(rf"^\| {program} \| {re.escape(str(TESTED[program]))}\b", README, re.MULTILINE)


@for_each("spark", ["4.0.1", "4.0.5", "4.1.0", "4.1.4", "4.2.0", "4.2.1", "4.2.0-amzn-1"])
def test_a_version_between_the_ends_and_a_repair_pass(spark: str):
    refuse_untested("Spark", spark)


@for_each(
    "program, other, install",
    [
        ("Spark", "4.3.0", "pyspark>=4.0.1,<4.3"),
        ("Spark", "4.0.0", "pyspark>=4.0.1,<4.3"),
        ("Spark", "3.5.7", "pyspark>=4.0.1,<4.3"),
        ("Delta", "4.0.0", "delta-spark>=4.4.0,<4.5"),
        ("Dagster", "1.12.9", "dagster>=1.13.0,<1.14"),
    ],
)
def test_another_version_is_refused_in_one_sentence_that_names_what_to_install(program: str, other: str, install: str):
    tested = f"{program} {other} is not among the versions .*{TESTED[program]}.*Install {install}"
    with raises_code("VERSION", match=tested):
        refuse_untested(program, other)


@for_each(
    "program, build, platform",
    [
        ("Spark", "4.0.0-amzn-1", False),
        ("Spark", "4.0.0", True),
        ("Delta", "4.0.0-amzn-1", False),
        ("Delta", "4.1.0.dbr", False),
    ],
)
def test_a_vendors_build_is_named_and_not_refused(program: str, build: str, *, platform: bool):
    assert untested_build(program, build, lambda: platform) == f"{program} {build} (tested: {TESTED[program]})"
    assert untested_build(program, TESTED[program].highest) is None


@for_each(
    "program, other, platform",
    [
        ("Spark", "3.5.6-amzn-0", True),
        ("Spark", "4.0.0", False),
        ("Spark", "4.3.0-SNAPSHOT", False),
        ("Spark", "4.3.0.dev1", False),
        ("Delta", "4.0.0", False),
    ],
)
def test_open_source_outside_of_the_range_and_another_major_stay_refused(program: str, other: str, *, platform: bool):
    with raises_code("VERSION"):
        untested_build(program, other, lambda: platform)


@pytest.mark.parametrize("spark", ["3.5.7", "4.3.0"])
def test_the_library_says_so_where_it_is_imported(spark: str, monkeypatch: pytest.MonkeyPatch):
    """Otherwise a PySpark that lacks a name which the library imports would end in an ImportError."""
    # This environment has only one version of PySpark.
    monkeypatch.setattr(lakehouse, "_version", lambda package: spark)
    monkeypatch.delitem(vars(lakehouse), "Table", raising=False)
    with raises_code("VERSION", match=rf"Spark {spark} is not among .*Install pyspark>=4.0.1,<4.3"):
        _ = lakehouse.Table


@for_each("jars", [delta_jars, s3_jars])
@for_each("spark", ["3.5.7", "4.3.0"])
def test_a_spark_without_a_tested_delta_has_no_jars(jars: Callable[[str], Any], spark: str):
    with raises_code("VERSION", match=rf"Spark {spark} is not among .*Install pyspark>=4.0.1,<4.3"):
        jars(spark)


def test_a_connect_server_of_another_minor_than_the_client_is_refused():
    refuse_other_client("4.1.4", "4.1.0")
    with raises_code("OTHER_SPARK", match=r'PySpark 4\.2\.0 .* Spark 4\.1\.4\..*"pyspark\[connect\]==4\.1\.\*"'):
        refuse_other_client("4.1.4", "4.2.0")


@for_each(
    "settings",
    [
        {"spark.jars.packages": "org.example:thing:1,io.delta:delta-spark_4.2_2.13:4.4.0"},
        {"spark.jars": "s3a://jars/other.jar,s3a://jars/delta-spark_4.2_2.13-4.4.0.jar"},
        {"spark.driver.extraClassPath": "/opt/jars/delta-spark_4.2_2.13-4.4.0.jar:/opt/jars/delta-storage-4.4.0.jar"},
    ],
)
def test_delta_s_jar_for_another_spark_is_refused_wherever_the_settings_name_it(settings: dict[str, str]):
    (name,) = settings
    refuse_other_jars("4.2.0", settings)
    refuse_other_jars("4.1.4", {"spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0"})  # before Delta named Spark
    expected = (
        rf"{name} has Delta's jar for Spark 4\.2 .* is 4\.1\.4\..*Give it io\.delta:delta-spark_4\.1_2\.13:4\.4\.0"
    )
    with raises_code("OTHER_SPARK", match=expected):
        refuse_other_jars("4.1.4", settings)
