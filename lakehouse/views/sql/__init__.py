"""From the text of a query to its algebra: the tokens, the tree, what no keys follow in it, its names, its blocks.

In: SQL text, the columns of its tables. Out: algebra; or why no keys follow the text; or a refusal; with the place.
Law: nothing of the text is passed over: what is not read is computed whole, what differs in each run is refused.
What Spark would cut into other tokens is refused, and comments and white space decide nothing.
Read: tokens, words, parsing, look, scopes, subqueries, sources, grouping, blocks, pivots, time_windows; lineage;
conditions, owned_text.
"""
