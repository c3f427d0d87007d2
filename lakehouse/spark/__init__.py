"""Sessions, tables at a version, types, rows that fit a table, rows at the driver, what an error means.

In: a session, DataFrames and SQL text. Out: DataFrames, logs, rows of Arrow, diagnoses.
Law: only SQL and the DataFrame API, so classic Spark, Connect and clusters run the same code; rows that are equal for
Spark are equal here.
Read: session, abilities, table_version; types, exactness, fitting, broken_promises, driver_rows; diagnosis;
progress; scratch.
"""
