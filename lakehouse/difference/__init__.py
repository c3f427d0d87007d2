"""The rows in which a result differs from the table, and the one statement that writes them.

In: the rows of a result, the table as it stands, its key. Out: the rows that differ, a `Statement`.
Law: only rows that differ are written, each of them once, by the statement that takes least work (`choose_statement`).
Read: row_comparison, by_key, statements; withheld, frozen_rows, expectations; between_versions.
"""
