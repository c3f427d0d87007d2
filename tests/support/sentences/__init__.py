"""The sentences of all errors, by what fails; tests/house/test_errors.py compares them."""
