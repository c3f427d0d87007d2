"""The package resources."""
