"""The tables of this lakehouse; definitions.py is what Dagster loads."""

from resources.environments import declare_api

declare_api()  # before a module defines a Python function for Spark
