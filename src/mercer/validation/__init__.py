"""Validation of parameters and of data."""
