"""Interpolation between beliefs by linear programs."""
