"""Upper bounds on the optimal average cost: finite-state controllers."""
