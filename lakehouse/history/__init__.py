"""Tables that keep the past, or full extracts.

In: the changes of a source with their times, or an extract with its version. Out: a `Statement`, or `Skip`.
Law: rows of one entity do not overlap, and what was said of the time before the position stays.
Read: history_table, history_rows, history, dropped_columns; then extract, corrected, snapshot, extracted_history.
"""
