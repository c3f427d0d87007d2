"""The Dagster side: the IO manager, resources, run tags, a materialization's metadata; three subfolders for the rest.

In: Dagster's contexts. Out: runs of `Materialization`, metadata.
Law: every failure reaches Dagster as one sentence, and a retry policy repeats only failures that may pass.
Read: io_manager, contexts, code_location, slices, run_tags, failures, one_driver, metadata, expectation_checks,
table_facts, remake, resources, view_files, branches.
"""
