"""The command `check`: what no run could do with the definitions, of all files at once.

Read: check, column_refusals.
"""
