"""What an asset's function does, as a digest of its code: equal in each process, checkout and format.

In: a function. Out: a `Code`, which the mark holds where no `code_version` is given.
Law: nothing of the user's is called, imported or changed, and a function whose code cannot be read has no digest.
Read: code, digest; then objects, syntax, source, values, modules.
"""
