"""Which of Spark's errors are broken promises."""

from pyspark.errors import AnalysisException, SparkRuntimeException

from lakehouse.dagster.view_files import KEY
from lakehouse.spark.broken_promises import Breach, breach_text, broken, broken_promise

ELSEWHERE = breach_text(Breach.ELSEWHERE)


def test_what_a_row_raises_is_a_broken_promise():
    found = broken_promise("flights", SparkRuntimeException(f"[USER_RAISED_EXCEPTION] {ELSEWHERE} SQLSTATE: P0001"))
    assert found is not None and found.code == "BROKEN_PROMISE"
    assert "elsewhere" not in str(found)
    assert "outside the touched keys" in str(found)


def test_a_plan_that_is_quoted_by_the_error_behind_it_is_none():
    """As in classic Spark, where Py4J's error is the context of PySpark's and quotes the same text."""
    error = AnalysisException("[UNRESOLVED_COLUMN]")
    error.__context__ = RuntimeError(f"[UNRESOLVED_COLUMN] 'Project raise_error('{ELSEWHERE}')")
    assert broken_promise("flights", error) is None


def test_a_piece_of_a_plan_is_none():
    quoted = 'raise_error(concat(lakehouse-broken-promise:{"kind": "outside", "key": , to_json(struct(id))))'
    assert broken_promise("flights", SparkRuntimeException(quoted)) is None


def test_a_plan_that_is_quoted_is_none():
    quoted = f"[DATATYPE_MISMATCH] cannot cast; line 1 pos 0;\n'MergeIntoTable\n+- raise_error('{ELSEWHERE}')"
    assert broken_promise("flights", AnalysisException(quoted)) is None
    of_delta = f"org.apache.spark.sql.delta.DeltaAnalysisException: [DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING] {quoted}"
    assert broken_promise("flights", RuntimeError(of_delta)) is None


def test_the_remedy_of_null_in_a_primary_key_names_the_property_that_allows_it():
    assert f"'{KEY}'" in str(broken("flights", Breach.REQUIRED, {"column": "id"}))
