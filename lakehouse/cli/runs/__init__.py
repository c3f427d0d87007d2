"""The command `lakehouse run`.

In: assets and options. Out: one run of Dagster, in its queue or in this process, and what became of each asset.
Law: an option becomes the run tag of the same meaning, which is refused before the run if it cannot be asked.
Read: launch, run_result, submit.
"""
