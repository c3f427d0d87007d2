"""From a position to `Changes`: what a source changed since the table last read it.

In: a pinned source, a position, the options of the input. Out: a decision, and `Changes`.
Law: a run covers `(after, upto]` of every source, contiguous, and nothing in a run reads "latest" twice.
Read: request, asset, run, positions; then decide, remedies, start, batch, resolve, uniqueness.
"""
