"""DataFrames: types of columns, rows that fit a table, equal rows, rows at the driver, promises within a plan.

In: DataFrames. Out: DataFrames, rows of Arrow, SQL text.
Law: rows that are equal for Spark are equal here, and a row at the driver is the row that Spark had.
Read: types, fitting, compare, driver_rows, exactness, promises.
"""
