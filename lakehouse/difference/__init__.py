"""The rows in which a result differs from the table, and the one statement that writes them.

In: the rows of a result, the table at its head, its key. Out: the rows that differ, a `Statement`.
Law: only rows that differ are written, each of them once, by the statement of least work (`choose_statement`).
Read: row_comparison, by_key, statements; withheld, frozen_rows, expectations; between_versions.
"""
