"""SQL text before anything parses it: its tokens, and the head of a statement that makes a view.

In: the text of a file, or of a query. Out: a `Statement`, and the digest that tells one query from another.
Law: what Spark would cut otherwise than this lexer is refused, and comments and white space decide nothing.
Read: tokens, token_reader, statement, other_statements, query_file; calls.
"""
