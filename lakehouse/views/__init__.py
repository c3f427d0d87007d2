"""From the text of a query to the keys whose rows may differ, and to the rows of these keys.

In: SQL text, the columns of its tables. Out: a plan as values; then touched keys and rows.
Law: every row in which the result differs has touched keys, and the rows of touched keys are those of the whole result.
The keys are found by planner, from the changes of each node (steps/deltas), and brought to the driver by
on_spark/computing.
Read: view_text, input_refusals, analysis; query, algebra, functions, printing; plan, planner, equalities; touch,
adding, explained; owned_rows.
"""
