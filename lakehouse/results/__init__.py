"""What an asset may return, as values.

In: DataFrames and options. Out: `Append`, `Merge`, `Overwrite`, `Aggregate`, `Snapshot`, `History`.
Law: a result that cannot be right for any table is refused when it is made.
Read: writes, kind, aggregate, row_sql, lost_changes.
"""
