"""Dagster's side: the IO manager, resources, sensors, checks and what a materialization shows.

In: Dagster's contexts. Out: runs of `Materialization`, metadata, run requests.
Law: every failure reaches Dagster as one sentence, and a retry policy repeats only what may pass.
Read: io_manager, code_location, run_tags, failures, metadata, definitions, validation, pools, resources; then watch,
tick, sensor, automation, partitions; then checks, checked, recomputed; then remade, postponed, nothing_to_do.
"""
