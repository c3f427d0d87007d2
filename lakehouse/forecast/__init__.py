"""What the next run of an asset would read and write, and why, by the logs of its tables.

In: a materialization that has begun, and where its sources stand. Out: a `Forecast`.
Law: nothing is read of any row, and nothing is written.
Read: forecast, reading, archive, writing.
"""
