"""What the definitions of a code location get: refusals at load, pools, checks, steps that end early, `explain`.

In: `dg.Definitions`. Out: the same definitions, complete; asset checks with a finding each; forecasts.
Law: what can be known when a code location loads is refused then; a check without an answer is a warning, never a pass.
Naming a cron schedule is the consent, so its schedule runs from the start: one night at a time, within its limit.
Read: definitions, validation, pools; then checks, checked, findings, lateness, recompute, comparison, past_checks;
then the nights: night_schedule, nightly, keeping; then explaining.
"""
