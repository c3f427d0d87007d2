"""A view's plans on Spark.

In: a text whose tables are pinned. Out: touched keys, and the rows that a table is to hold.
Law: few keys come to the driver and become literals, which leave out files; too many keys only cost time.
Read: run_facts, bound_text, computing, running, key_conditions; touched_by, owned_rows; plan_lint.
"""
