"""Environment variables that stand for the value of a resource's field (`dg.EnvVar`)."""

import dagster as dg

from lakehouse.errors import DefinitionError


def value_of(text: str) -> str:
    """A field's value. Dagster puts a variable's value in its place in runs alone; sensors and commands ask here.

    Raises:
        DefinitionError: The variable is not set.
    """
    if not isinstance(text, dg.EnvVar):
        return text
    value = text.get_value()
    if value is None:
        raise DefinitionError(f"A resource names the environment variable {text.env_var_name}. It is not set: set it.")
    return value
