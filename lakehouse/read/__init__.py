"""From a position to `Changes`: what a source changed since the table last read it.

In: a pinned source, a position, the options of the input. Out: `Changes`, `Touched`.
Law: a run covers `(after, upto]` of every source, contiguous, and nothing in a run reads "latest" twice.
Read: source, decide, remedies, start, batch, resolve, feed_reader, feed_trust, changes, touched, run, positions, asset;
then the short ways: latest_images, uniqueness, replaced; and the fallbacks: archive, version_diff, restated.
"""
