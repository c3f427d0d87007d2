"""From the text of a query to the keys whose rows may differ, and to the rows of these keys.

In: SQL text, the columns of its tables. Out: a plan as values; then touched keys and rows.
Law: every row that differs in the result has touched keys, and the rows computed for touched keys are those that they
have in the whole result.
planner finds the keys from the changes of each node (steps/deltas); on_spark/computing brings them to the driver.
Read: view_text, input_refusals, analysis; query, algebra, functions, printing; plan, planner, equalities; touch,
row_order, adding, explained.
"""
