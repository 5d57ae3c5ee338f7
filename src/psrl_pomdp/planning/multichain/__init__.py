"""Bounds where the optimal average cost depends on the initial belief."""
