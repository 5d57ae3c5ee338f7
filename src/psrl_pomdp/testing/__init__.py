"""Checkers for models, priors, posteriors, planners, agents and runs."""
