"""Settings without which a run may never end: every session has them before rows are computed, whoever started it."""

REQUIRED = {
    # Spark 4.2.0 waits for ever where a plain Python function reads the columns of a scan (SPARK-58241).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}
"""All of them can be set on a running session."""
