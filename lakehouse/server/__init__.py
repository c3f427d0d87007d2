"""The Spark Connect server that all runs of one machine share, and what it needs: Java, jars, locks, settings.

In: the root of local tables. Out: a session on one warm JVM that alone writes below that root.
Law: one JVM owns a local root; two would overwrite each other's commits.
Read: connect, lifecycle, supervisor, rendezvous, jvm, settings; then jars, class_archive, versions, in_process.
"""
