"""The rows in which a result differs from the table, and the one statement that writes them.

In: the rows of a result, the table as it stands, its key. Out: the rows that differ, a `Statement`.
Law: after the statement the table holds exactly the result for what the write is about, and no other row was rewritten.
Read: by_key, statements, difference, driver_difference, broken_promises; between_versions.
"""
