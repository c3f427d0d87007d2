"""From a position to `Changes`: what a source changed since the table last read it.

In: a pinned source, a position, the options of the input. Out: a plan, and `Changes`, `Touched`, DataFrames.
Law: a run covers `(after, upto]` of every source, contiguous, and nothing in a run reads "latest" twice.
Read: run, asset, decide, read_plan, resolve; feed_reader, feed_trust, archive; content, changes, touched,
touched_keys; forecast.
"""
