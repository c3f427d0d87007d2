"""The house rules: imports, public names, errors."""
