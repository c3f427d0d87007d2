"""Which writers of one table can conflict, as data.

In: what a code location declares. Out: pairs of writers with a verdict, its reason and its remedy.
Law: the rules answer as Delta answers; tests/upstream try the same pairs on a real Delta.
Read: operations, rules, pairs.
"""
