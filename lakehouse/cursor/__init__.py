"""How far a table has read each of its sources, as its own commits record it.

In: the log of the asset's own table. Out: `Known`, `Fresh` or `Lost`.
Law: the position and the rows travel in one commit (ADR 1); a RESTORE of the table
takes both back. To the table's readers the RESTORE is one more commit after their position.
Read: generation, mark, digests, extract_version, definition, cursor, find, walk, since_base, beside,
unread, standings, cuts, branching.
"""
