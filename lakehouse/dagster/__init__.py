"""Dagster's side: the IO manager, resources, run tags, and what a materialization shows; three folders for the rest.

In: Dagster's contexts. Out: runs of `Materialization`, metadata.
Law: every failure reaches Dagster as one sentence, and a retry policy repeats only what may pass.
Read: io_manager, contexts, code_location, slices, run_tags, failures, one_driver, metadata, expectation_checks,
table_facts, remake, resources, view_files, branches.
"""
