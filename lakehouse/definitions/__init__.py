"""What the definitions of a code location get: refusals at load, pools, checks, steps that end early, `explain`.

In: `dg.Definitions`. Out: the same definitions, complete; asset checks; forecasts.
Law: what can be known when a code location loads is refused then.
Read: definitions, validation, archives, pools, result_types, nothing_to_do; then checks, checked, worst_partition,
recomputed; then explaining.
"""
