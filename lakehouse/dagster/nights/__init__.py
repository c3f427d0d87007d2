"""What runs at night for a whole code location, by one job and one schedule each.

In: the tables of a code location, a cron schedule, a limit. Out: the job of upkeep, and what checks share with it.
Law: to name a cron schedule is the consent, so the schedule runs from the start: one night at a time, within its limit.
Read: night_schedule, keeping.
"""
