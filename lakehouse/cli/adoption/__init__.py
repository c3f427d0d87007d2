"""The command `lakehouse adopt`.

In: the folder of a dbt project, or of SQL files. Out: a verdict for each model, and files for `views_from`.
Law: every model is in the report; one whose rows cannot be known here is not moved, and the report says why.
Read: adopt, verdicts, taken_columns, models, jinja.
"""
