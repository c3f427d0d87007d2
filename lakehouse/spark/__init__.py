"""Sessions, snapshots of tables, what an error of Spark means, the progress of its jobs.

In: a session and SQL text. Out: DataFrames of tables at a version, logs, diagnoses.
Law: only SQL and the DataFrame API, so classic Spark, Connect and clusters run the same code.
Read: session, snapshot, spark_log; then evidence, diagnosis; then codegen, prefetch, required, progress, phases,
classic_progress.
"""
