"""A Python function that a module makes with `@F.udf` before it is known which Spark there is."""

import os
import subprocess
import sys

import pytest

from resources.environments import PROJECT
from tests.support.for_each import for_each

pytestmark = pytest.mark.deep

MODULE = """
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakehouse.dagster.failures import explaining_errors


@F.udf(returnType=StringType())
def label(amount):
    return "large" if amount > 20 else "small"


@explaining_errors("labels")
def labels():
    return str(label("amount"))


print(labels())
"""


def said(module: str, variable: str | None) -> subprocess.CompletedProcess[str]:
    """The output of a process of its own that imports a module."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    if variable is not None:
        environment["SPARK_CONNECT_MODE_ENABLED"] = variable
    command = [sys.executable, "-c", module]
    return subprocess.run(command, check=False, cwd=PROJECT, env=environment, capture_output=True, text=True)


def test_it_is_made_for_spark_connect_if_the_variable_is_set_when_its_module_is_imported():
    assert said(MODULE, "1").stdout.strip() == "Column<'label(amount)'>"


def test_without_the_variable_the_error_names_the_line_of_the_environment():
    ran = said(MODULE, None)
    assert ran.returncode == 1
    assert "Asset 'labels' uses a function or a column of PySpark that was made for classic Spark" in ran.stderr
    assert "Put SPARK_CONNECT_MODE_ENABLED=1 into the file .env" in ran.stderr
    assert "[lakehouse.OF_CLASSIC_SPARK]" in ran.stderr


@for_each("variable", [None, "1"])
def test_pyspark_parses_a_type_that_is_a_text_where_the_function_is_made_so_no_module_can_say_it(variable: str | None):
    """So the documentation asks for a type object: the error is raised on import, before this library is called."""
    ran = said(MODULE.replace("StringType())", '"string")'), variable)
    assert ran.returncode == 1
    assert ("SESSION_OR_CONTEXT_NOT_EXISTS" if variable is None else "NO_ACTIVE_OR_DEFAULT_SESSION") in ran.stderr


def test_another_error_explaining_errors_stays_what_it_is():
    ran = said(MODULE.replace('label("amount")', 'F.col("a") + 1 / 0'), "1")
    assert "ZeroDivisionError" in ran.stderr
    assert "lakehouse.OF_CLASSIC_SPARK" not in ran.stderr
