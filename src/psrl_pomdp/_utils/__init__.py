"""Checks of arrays and other small tools that every other package may use."""
