"""What an asset's function does, as a digest of its code (ADR 19), and what its resources hand to it.

In: a function. Out: a `Code`, which the mark holds where no `code_version` is given.
Law: no code of the user is imported or changed, and a function whose code cannot be read has no digest.
Read: digest, then source, view_texts, explained_view.
"""
