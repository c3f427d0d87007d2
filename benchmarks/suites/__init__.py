"""One file for each question; `python -m benchmarks NAME` runs it."""
