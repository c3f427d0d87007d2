"""Runs that follow changes: the sensor, the automation condition, and how far each table is behind.

In: the definitions of a code location, the logs of their tables. Out: run requests, observations, a condition's truth.
Law: what is unread has one answer, that of `cursor`, and it is read from the logs without Spark.
Read: followed, partitions, watch, sensor, automation, cutting.
"""
