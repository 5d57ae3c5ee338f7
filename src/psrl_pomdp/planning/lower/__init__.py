"""Lower bounds on the optimal average cost."""
