"""The command `lakehouse run`.

In: assets and options. Out: one run of Dagster, in its queue or in this process, and what became of each asset.
Law: an option becomes the run tag of the same meaning; a tag that the asset does not allow is refused before the run.
Read: launch, run_result, submit.
"""
