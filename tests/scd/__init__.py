"""Slowly changing dimensions: the rules of AUTO CDC, each against a fold in plain Python."""
