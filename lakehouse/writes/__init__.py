"""What an asset may return, and how each of these writes becomes one Delta statement.

In: DataFrames and options, the run, the head of the table. Out: a write; then a `Statement`, or `Skip`.
Law: after the statement the table holds exactly the result for the rows that the write is about, and no other row was
rewritten.
Read: write, stated; append, overwrite, merge, view (view_run); aggregate (sums); snapshot (extract);
history (history_rows, followed_history).
"""
