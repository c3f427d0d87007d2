"""The changes of a range of versions as rows: by the change data feed, or in its place.

In: a pinned source and the commits of a range. Out: the images of its rows, or why the feed cannot be believed.
Law: the images are those of every change of the range, and of no other; where the feed would be wrong it is not used.
Read: source, feed_reader, feed_trust, feed_weight, replaced; the fallbacks: version_diff, archive; and for a history:
backdated, restated.
"""
