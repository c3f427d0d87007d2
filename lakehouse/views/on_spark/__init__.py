"""A view's plans on Spark.

In: a text whose tables are pinned. Out: touched keys, and the rows that a table is to hold.
Law: keys come to the driver if they are few, and then leave out files as literals; too many keys cost time alone.
Read: run_facts, bound_text, computing, running, key_conditions; touched_by; plan_lint.
"""
