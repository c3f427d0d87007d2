"""The `lakehouse` command.

In: arguments. Out: text, or one JSON document with `--json`; an exit code.
The folder `runs` is the command `run`; `pages` is how answers look.
Law: a command needs no JVM where the log is enough, and nothing is imported that it does not need.
Read: main, command; then what the commands answer: tables, graph, status, table_rows, retention, branch,
before_a_run, check (column_refusals), doctor, spark, new.
"""
