"""Dagster's side of one run: the IO manager, resources, run tags, and what a materialization shows.

In: Dagster's contexts. Out: runs of `Materialization`, metadata.
Law: every failure reaches Dagster as one sentence, and a retry policy repeats only what may pass.
Read: io_manager, sources, contexts, code_location, run_tags, failures, metadata, facts, postponed, remade, drivers,
fit, variables, resources, past_checks.
"""
