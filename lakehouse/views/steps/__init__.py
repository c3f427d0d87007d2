"""The SQL of a plan's steps, by two readings of the algebra: what changed (deltas), and what rows hold (supersets).

In: the algebra of a query, in fewer nodes. Out: relations as SQL with places, which become steps.
Law: a reading may give too much, never too little.
A step computes of one row alone: by a value of many rows no keys are found, so all rows are computed.
Read: simplify; relations, planning; supersets, hops, join_tree, deltas, restrictions.
"""
