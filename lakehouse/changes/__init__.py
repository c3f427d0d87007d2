"""What a function is given of a source: `Changes`, and the keys that they touch.

In: rows of a change data feed, or all rows of a version. Out: `Changes`, `Touched`, DataFrames.
Law: the rows of touched keys are all rows that the pinned version has of them, whatever way they are found.
Read: content, changes, touched, touched_keys, touched_by, latest_images, times.
"""
