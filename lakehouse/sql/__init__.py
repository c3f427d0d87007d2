"""Names, keys and partitions as SQL text that no value can break out of.

In: column names, key values, partition keys. Out: SQL literals and predicates.
Law: a name or a value reaches SQL through this package and nowhere else.
Read: text, keys, extents, partitions.
"""
