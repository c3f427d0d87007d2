"""From a position to `Changes`: what a source changed since the table last read it.

In: a pinned source, a position, the options of the input. Out: `Changes`, `Touched`.
Law: a run covers `(after, upto]` of every source, contiguous, and nothing in a run reads "latest" twice.
Read: source, request, decide, remedies, start, batch, resolve, feed_reader, feed_trust, changes, touched, touched_keys,
touched_by, run, positions, asset; then the short ways: latest_images, uniqueness, replaced; the fallbacks: archive,
version_diff; and the times of a history: times, backdated, restated.
"""
