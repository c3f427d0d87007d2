"""Where the tables of a lakehouse stand and what is to be done about them, by their logs alone.

In: the logs by name. Out: `LakehouseStatus`: of each table its position, readers,
due upkeep, lost attempts.
Law: no JVM; a table is opened once, and of its log only the newest commits are read, however long the log is.
Read: table_status, lakehouse_status.
"""
