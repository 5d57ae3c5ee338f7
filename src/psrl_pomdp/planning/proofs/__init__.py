"""Proofs in exact arithmetic: the certificates of a plan as fractions, checked here or written for strangers."""
