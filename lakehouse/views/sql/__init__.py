"""From the text of a query to its algebra: its tokens, its tree, what keys cannot follow in it, its names, its blocks.

In: SQL text, the columns of its tables. Out: algebra; or why keys cannot follow changes through the text; or a refusal.
Law: no part of the text is ignored. If a part is not read, all rows are computed; if it differs in each run, it is
refused. Text that Spark would cut into other tokens is refused, and comments and white space have no effect.
Read: tokens, words, parsing, look, scopes, subqueries, sources, grouping, blocks, pivots, time_windows; lineage;
conditions, owned_text.
"""
