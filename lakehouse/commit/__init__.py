"""From a statement to exactly one commit of the table.

In: a statement and a mark. Out: an `Outcome`: committed, already applied or unchanged.
Law: an exception never means "not committed" until the log says so.
Read: commit, attempt, execute, outcome; then superseded, rivals, failed_plan.
"""
