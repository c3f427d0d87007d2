"""The `lakehouse` command.

In: arguments. Out: text, or one JSON document with `--json`; an exit code.
Law: a command needs no JVM where the log is enough, and nothing is imported that it does not need.
Read: main, command; then what the commands answer: table_status, tables, status, before_a_run, spark, new.
"""
