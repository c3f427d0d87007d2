"""The `lakehouse` command.

In: arguments. Out: text, or one JSON document with `--json`.
Law: a command needs no JVM where the log is enough.
"""
