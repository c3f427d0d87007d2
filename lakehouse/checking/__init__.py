"""What can be said of a table beside its rows: whether it is right, how far behind it is, what threatens it.

In: logs, cursors, and frames of a table and of its recompute. Out: a `Finding`.
Law: a check writes nothing, and a question without an answer is a warning, never a pass.
Read: finding, lag, staleness, feed, schema, keys, recompute, sample, archive.
"""
