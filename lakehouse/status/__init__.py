"""Where the tables of a lakehouse stand, by their logs alone: for the command line.

In: logs by name. Out: values that a command prints.
Law: no row is read, and no Spark and no Dagster is needed.
Read: tables, new_code, commits.
"""
