"""What the definitions of a code location get: refusals, pools, checks, nights, steps that end early, `explain`.

In: `dg.Definitions`. Out: the same definitions, complete; asset checks; forecasts.
Law: what can be known when a code location loads is refused then.
Read: definitions, validation, archives, pools, result_types, nothing_to_do; then checks, making_checks, checked,
worst_partition, comparison, recomputed, nightly; then explaining.
"""
