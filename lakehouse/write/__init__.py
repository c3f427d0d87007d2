"""From what an asset returns to one Delta statement.

In: a result (`lakehouse.results`), the run, the table as it stands. Out: a `Statement`, or `Skip`.
Law: after the statement the table holds exactly the result for what the write is about, and no other row was rewritten.
Read: completed, new_columns, plan, incremental_sums, empty_text, outside.
"""
