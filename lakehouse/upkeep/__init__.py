"""Who still reads the past of a table, what may therefore be removed of it, and which work is due.

In: the logs of a table and of its readers. Out: `Readers` (who, how far, what each holds back); tasks and statements.
`Readers.horizon` decides which versions no reader needs. Their files are removed if the table keeps its past longer
than it promises (the property that registration.TIME_TRAVEL names). For any other table Delta's own retention decides.
Law: upkeep never removes a change that a known reader has not read, within the limit that the reader was given.
Read: registration, readers, due, carry_out.
"""
