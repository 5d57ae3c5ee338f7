"""Markov chains of policies and controllers: sweeps, relative values, gains."""
