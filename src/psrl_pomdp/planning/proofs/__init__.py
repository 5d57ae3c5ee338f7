"""Proofs in exact arithmetic: a plan's certificates as fractions, checked here or written for strangers."""
