"""The SQL of a plan's steps, by two readings of the algebra: what changed (deltas), and what rows hold (supersets).

In: the algebra of a query, simplified. Out: relations as SQL with places, which become steps.
Law: a reading may give too much, never too little.
A step computes values from single rows. Keys that depend on a value of many rows are not found: all rows are computed.
Read: simplify; relations, planning; supersets, hops, join_tree, deltas, restrictions.
"""
