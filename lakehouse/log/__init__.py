"""Delta's log as this library reads it: where a table stands, what each commit did. No JVM is needed for local tables.

In: a table's location. Out: `Head`, `Commit`, counts of rows and files.
Law: a log is read from a version that was pinned before; a version that is missing in the middle is an error.
Read: log, commit_info, versions, rows, size, location, files, file_log, growth, opened, retention.
"""
