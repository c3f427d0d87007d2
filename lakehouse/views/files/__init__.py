"""The head of a statement that makes a view, read from the tokens of its file before anything parses the query.

In: the text of a file. Out: a `Statement`, or the query alone.
Read: token_reader, statement, other_statements, query_file.
"""
