"""What an asset may return, and how each becomes one Delta statement.

In: DataFrames and options, the run, the table as it stands. Out: a write; then a `Statement`, or `Skip`.
Law: after the statement the table holds exactly the result for what the write is about, and no other row was rewritten.
Read: writes, complete, plan, write_forecast; empty_text; aggregate, row_sql, incremental_sums; extract, snapshot,
extracted_history; history_rows, history; column_changes.
"""
