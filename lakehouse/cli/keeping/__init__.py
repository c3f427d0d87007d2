"""The commands `readers` and `upkeep`: who needs the past of a table, and what is done to keep the table in shape.

Read: table_readers, table_upkeep.
"""
