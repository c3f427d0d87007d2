"""From the text of a query to its algebra: the tokens, the tree, what is refused in it, its names, its blocks.

In: SQL text, the columns of its tables. Out: algebra, or a refusal with the place in the text.
Law: what is not read is refused by name; nothing of the text is passed over. What Spark would cut into other tokens is
refused, and comments and white space decide nothing.
Read: tokens, parsing, refusals, scopes, subqueries, sources, grouping, blocks, simplify; lineage; row_sql.
"""
