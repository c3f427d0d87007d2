"""Sessions, snapshots of tables, rows at the driver, what an error of Spark means.

In: a session and SQL text. Out: DataFrames, rows, diagnoses.
Law: only SQL and the DataFrame API, so classic Spark, Connect and clusters run the same code.
Read: session, snapshot, spark_log, driver_rows, types, fitting, compare, promises; then evidence, diagnosis, exactness;
then codegen, prefetch, required, progress, phases, classic_progress.
"""
