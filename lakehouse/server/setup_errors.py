"""The errors of Spark on this machine are in `lakehouse.errors`; this module stays until the next release."""

from lakehouse.errors import SetupError, __getattr__

__all__ = ["SetupError", "__getattr__"]
