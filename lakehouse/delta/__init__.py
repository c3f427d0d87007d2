"""What a Delta log contains, what users declare, and SQL text that no value can break out of. No JVM is needed.

In: a table's location, arguments of a definition, names and values. Out: `Head`, `Commit`; `Table`, `Read`; SQL text.
Law: a log is read from a version that was pinned first, and a name or a value reaches SQL only through `text`.
Read: log, commit_info, growth, location, log_files, file_log; table, policy, expect, owned; text,
keys, partition_keys; limits.
"""
