"""From what an asset returns to one Delta statement.

In: what an asset returns (`lakehouse.write.writes`) and the table as it stands. Out: a `Statement`, or `Skip`.
Law: after the statement the table holds exactly the result for what the write is about, and no other row was rewritten.
Read: writes, kind, completed, plan, by_key, statements; then compared, difference, driver_difference; then aggregate,
row_sql, incremental_sums; then history_table, history_rows, history; then extract, snapshot, extracted_history;
then the refusals: broken_promises, lost_changes, empty_text; and what a run left out: outside.
"""
