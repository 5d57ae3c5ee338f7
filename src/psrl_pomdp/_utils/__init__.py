"""Checks of arrays and other small tools for the whole package."""
