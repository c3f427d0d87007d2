"""What users declare about a table, an input, a policy, a retry: frozen values that are checked when they are made.

In: arguments of a definition. Out: `Table`, `Read`, `Policy`, `Retry`.
Law: a combination that no Delta table can have cannot be built.
Read: table, read, policy, retry, metadata, isolation.
"""
