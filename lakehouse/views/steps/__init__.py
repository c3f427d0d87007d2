"""The SQL of a plan's steps: three readings of the algebra, each of which needs the others.

In: the algebra of a query. Out: relations as SQL with places, which become steps.
Law: a reading may give too much, never too little.
Read: relations, key_limits, wording, row_order, planning; deltas, hops, join_tree, supersets, exact_rows,
restrictions.
"""
